import type { IssuedToken } from '@coffer/sdk'
import { Button } from '../../../parts/button.tsx'
import { CopyButton } from '../../../parts/copy.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { TextField } from '../../../parts/field.tsx'
import { absoluteTime } from '../../../parts/time.tsx'
import type { SecretPlace } from '../../grid/snippets.ts'
import { SnippetList } from './snippet-list.tsx'
import { tokenSnippets } from './token-snippets.ts'

type TokenValueProps = {
  readonly issued: IssuedToken
  readonly place: SecretPlace
  readonly onClose: () => void
  /** How long the value of before still works. */
  readonly remark?: string | undefined
}

/** The value is shown here and nowhere again. It lives in the dialog that renders this, and goes with it. */
export function TokenValueDialog({ issued, place, remark, onClose }: TokenValueProps) {
  const actions = (
    <>
      <Button onClick={onClose}>Done</Button>
      <CopyButton kind="primary" text={issued.token}>
        Copy token
      </CopyButton>
    </>
  )
  const until = issued.expiresAt === null ? 'never expires' : `expires on ${absoluteTime(issued.expiresAt)}`
  return (
    <Dialog title={`Token ${issued.name}`} kind="wide" isOpen keepsOpen onClose={onClose} actions={actions}>
      <TextField
        label="Token"
        readOnly
        className="font-mono"
        value={issued.token}
        onFocus={({ target }) => target.select()}
        hint={`Shown only now: copy it to where it is needed. It ${until}.`}
      />
      {remark && <p>{remark}</p>}
      <SnippetList snippets={tokenSnippets(place)} />
    </Dialog>
  )
}
