/** Modal dialogs and side drawers. Focus stays inside, Escape closes, and focus returns to the opener. */
import type { Confirmation } from '@coffer/sdk'
import { type ReactNode, useState } from 'react'
import { Button } from './button.tsx'
import { ConfirmationField, confirmationFields, confirmationOf, isConfirmed } from './confirmation.tsx'
import { ErrorNote } from './error-note.tsx'
import { TextField } from './field.tsx'
import { errorBeside } from './field-error.ts'
import { lazyPart, useLazyPart } from './lazy-part.ts'
import type { DialogProps } from './opened-dialog.tsx'

const openedDialog = lazyPart(async () => (await import('./opened-dialog.tsx')).OpenedDialog)

export function Dialog(props: DialogProps) {
  const [wasOpened, setOpened] = useState(props.isOpen)
  if (props.isOpen && !wasOpened) setOpened(true)
  const OpenedDialog = useLazyPart(openedDialog, wasOpened)
  return OpenedDialog && <OpenedDialog {...props} />
}

type ConfirmProps = {
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  /** Says what will happen, in the user's words. */
  readonly children: ReactNode
  /** The verb on the button, such as "Delete shop". */
  readonly action: string
  /** Must be typed before the button works: for actions that cannot be undone. */
  readonly typed?: string | undefined
  /** What would happen is not known yet. */
  readonly isWaiting?: boolean
  /** Primary for what destroys nothing. */
  readonly kind?: 'danger' | 'primary'
  /** Asks for the password or a code, which `onConfirm` gets. */
  readonly asksWho?: boolean
  readonly onConfirm: (confirmation: Confirmation) => Promise<unknown>
}

/** Asks before something destructive, and stays open with the reason if it fails. */
export function ConfirmDialog({
  title,
  isOpen,
  onClose,
  children,
  action,
  typed,
  kind,
  asksWho = false,
  onConfirm,
  ...rest
}: ConfirmProps) {
  const [text, setText] = useState('')
  const [given, setGiven] = useState<Confirmation>({})
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()

  function close(): void {
    setText('')
    setGiven({})
    setError(undefined)
    onClose()
  }

  async function confirm(): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm(confirmationOf(given))
      close()
    } catch (cause) {
      setError(cause)
    } finally {
      setBusy(false)
    }
  }

  const actions = (
    <>
      <Button disabled={isBusy} onClick={close}>
        Cancel
      </Button>
      <Button
        kind={kind ?? 'danger'}
        isBusy={isBusy}
        disabled={rest.isWaiting || (typed !== undefined && text !== typed) || (asksWho && !isConfirmed(given))}
        onClick={confirm}
      >
        {action}
      </Button>
    </>
  )
  return (
    <Dialog title={title} isOpen={isOpen} isBusy={isBusy} onClose={close} actions={actions}>
      <div className="flex flex-col gap-3">
        {children}
        {typed !== undefined && (
          <TextField
            label={`Type ${typed} to confirm`}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
        {asksWho && <ConfirmationField value={given} error={error} onChange={setGiven} />}
        <ErrorNote error={asksWho ? errorBeside(error, ...confirmationFields) : error} />
      </div>
    </Dialog>
  )
}
