import { type FormEvent, type ReactNode, useId } from 'react'
import { useAction } from './action.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { ErrorNote } from './error-note.tsx'
import { errorBeside } from './field-error.ts'

type FormDialogProps = {
  readonly title: string
  readonly description?: ReactNode
  /** The verb on the button, such as "Create team". */
  readonly action: string
  readonly onClose: () => void
  /** The dialog closes once this has succeeded, and stays open with the reason otherwise. */
  readonly save: () => Promise<unknown>
  /** Instead of closing, if another step follows. */
  readonly onSaved?: () => void
  /** Fields that show their own errors, by the names that the service gives them. */
  readonly fields: readonly string[]
  readonly children: (error: unknown) => ReactNode
}

/** A form in a dialog. Render it only while it is open: what was typed goes with it. */
export function FormDialog({ title, description, action, onClose, save, fields, children, ...rest }: FormDialogProps) {
  const { onSaved = onClose } = rest
  const id = useId()
  const { run, isBusy, error } = useAction(save)

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault()
    if (await run()) onSaved()
  }

  const actions = (
    <>
      <Button disabled={isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form={id} kind="primary" isBusy={isBusy}>
        {action}
      </Button>
    </>
  )
  return (
    <Dialog {...{ title, description, actions, isBusy, onClose }} isOpen keepsOpen>
      <form id={id} className="flex flex-col gap-3" onSubmit={submit}>
        {children(error)}
        <ErrorNote error={errorBeside(error, ...fields)} />
      </form>
    </Dialog>
  )
}
