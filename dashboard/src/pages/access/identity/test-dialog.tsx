import type { Identity, IdentityVerdict } from '@coffer/sdk'
import { useState } from 'react'
import { testIdentity } from '../../../api/identity.ts'
import { useAction } from '../../../parts/action.ts'
import { Badge } from '../../../parts/badge.tsx'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextAreaField } from '../../../parts/field.tsx'
import { Note } from '../../../parts/note.tsx'
import { plural } from '../../../parts/plural.ts'
import { Table } from '../../../parts/table.tsx'
import './identity.css'

type TestDialogProps = { readonly ws: string; readonly identity: Identity; readonly onClose: () => void }

/** The pasted token lives in this dialog alone, and goes with it. */
export function TestDialog({ ws, identity, onClose }: TestDialogProps) {
  const [token, setToken] = useState('')
  const [verdict, setVerdict] = useState<IdentityVerdict>()
  const check = useAction(async () => setVerdict(await testIdentity(ws, identity.id, token.trim())))
  const actions = (
    <>
      <Button onClick={onClose}>Close</Button>
      <Button kind="primary" isBusy={check.isBusy} disabled={token.trim() === ''} onClick={() => void check.run()}>
        Test
      </Button>
    </>
  )
  return (
    <Dialog
      title={`Test ${identity.name}`}
      description="Checks a token of the issuer against every rule. Nothing is granted, and the token is not kept."
      kind="wide"
      isOpen
      keepsOpen
      onClose={onClose}
      actions={actions}
    >
      <TextAreaField
        label="Token of the issuer"
        maxLength={16_384}
        placeholder="eyJ…"
        value={token}
        onChange={({ target }) => {
          setToken(target.value)
          setVerdict(undefined)
        }}
      />
      <ErrorNote error={check.error} />
      <div aria-live="polite" className="flex flex-col gap-3">
        {verdict && <Verdict verdict={verdict} />}
      </div>
    </Dialog>
  )
}

function Verdict({ verdict: { ok, checks } }: { readonly verdict: IdentityVerdict }) {
  const failed = checks.filter((check) => !check.ok).length
  return (
    <>
      <Note tone={ok ? 'good' : 'bad'}>
        {ok ? 'This token would be accepted.' : `This token would be refused: ${plural(failed, 'check')} failed.`}
      </Note>
      <div className="verdict">
        <Table label="Checks" columns={['Result', 'Check', 'Expected', 'In the token']}>
          {checks.map((check) => (
            <tr key={check.check} className={check.ok ? '' : 'failed'}>
              <td>{check.ok ? <Badge tone="good">passed</Badge> : <Badge tone="bad">failed</Badge>}</td>
              <th scope="row">{check.check}</th>
              <td>{check.expected}</td>
              <td>{check.actual}</td>
            </tr>
          ))}
        </Table>
      </div>
    </>
  )
}
