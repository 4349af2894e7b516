import type { Confirmation, IssuedToken, TeamGroup, Token, Workspace } from '@coffer/sdk'
import { useState } from 'react'
import { rotateToken } from '../../../api/token.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ConfirmationField, confirmationFields, confirmationOf, isConfirmed } from '../../../parts/confirmation.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField } from '../../../parts/field.tsx'
import { errorBeside } from '../../../parts/field-error.ts'
import { examplePlace } from './token-snippets.ts'
import { TokenValueDialog } from './token-value.tsx'

const graces = [
  { seconds: 0, name: 'Ends at once', remark: 'The old value has ended.' },
  { seconds: 600, name: 'Works for 10 more minutes', remark: 'The old value works for 10 more minutes.' },
  { seconds: 3_600, name: 'Works for 1 more hour', remark: 'The old value works for 1 more hour.' },
  { seconds: 86_400, name: 'Works for 24 more hours', remark: 'The old value works for 24 more hours.' },
] as const

type RotateDialogProps = {
  readonly ws: string
  readonly token: Token
  readonly workspace: Workspace
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

export function RotateDialog({ ws, token, workspace, teams, onClose }: RotateDialogProps) {
  const [grace, setGrace] = useState<(typeof graces)[number]>(graces[2])
  const [issued, setIssued] = useState<IssuedToken>()
  const [confirmation, setConfirmation] = useState<Confirmation>({})
  const asksWho = token.mayAdminister
  const rotate = useAction(async () => {
    const proof = asksWho ? confirmationOf(confirmation) : {}
    setIssued(await rotateToken(ws, token.id, { graceSeconds: grace.seconds, ...proof }))
  })
  if (issued) {
    const place = examplePlace(workspace, issued.scope, teams)
    return <TokenValueDialog issued={issued} place={place} remark={grace.remark} onClose={onClose} />
  }
  const actions = (
    <>
      <Button disabled={rotate.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button
        kind="primary"
        isBusy={rotate.isBusy}
        disabled={asksWho && !isConfirmed(confirmation)}
        onClick={() => void rotate.run()}
      >
        Rotate
      </Button>
    </>
  )
  return (
    <Dialog title={`Rotate ${token.name}`} isOpen keepsOpen isBusy={rotate.isBusy} onClose={onClose} actions={actions}>
      <p>The token gets a new value. Its name, rights and expiry stay.</p>
      <SelectField
        label="Old value"
        hint="Time to put the new value in place. An older value that still works ends now."
        value={grace.seconds}
        onChange={({ target }) => setGrace(graces.find(({ seconds }) => String(seconds) === target.value) ?? graces[0])}
      >
        {graces.map(({ seconds, name }) => (
          <option key={seconds} value={seconds}>
            {name}
          </option>
        ))}
      </SelectField>
      {asksWho && <ConfirmationField value={confirmation} error={rotate.error} onChange={setConfirmation} />}
      <ErrorNote error={asksWho ? errorBeside(rotate.error, ...confirmationFields) : rotate.error} />
    </Dialog>
  )
}
