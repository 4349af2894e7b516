/** Modal dialogs and side drawers. Focus stays inside, Escape closes, and focus returns to the opener. */
import { type ReactNode, useState } from 'react'
import { Button } from './button.tsx'
import { ErrorNote } from './error-note.tsx'
import { TextField } from './field.tsx'
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
  readonly onConfirm: () => Promise<unknown>
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
  onConfirm,
  ...rest
}: ConfirmProps) {
  const [text, setText] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()

  function close(): void {
    setText('')
    setError(undefined)
    onClose()
  }

  async function confirm(): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm()
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
        disabled={rest.isWaiting || (typed !== undefined && text !== typed)}
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
        <ErrorNote error={error} />
      </div>
    </Dialog>
  )
}
