import type { IssuedToken, NewToken, Scope, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useMemo, useState } from 'react'
import { type Rights, reachOf } from '../../../api/right.ts'
import { createToken } from '../../../api/token.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField, TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { Note } from '../../../parts/note.tsx'
import { isNothing, nothing } from '../../../parts/scope/scope.ts'
import { ScopeField } from '../../../parts/scope/scope-field.tsx'
import { dayOf } from '../../../parts/time.tsx'
import { PermissionField } from '../permission-field.tsx'
import { endOf, lifetimes } from './lifetime.ts'
import { examplePlace } from './token-snippets.ts'
import { TokenValueDialog } from './token-value.tsx'

type TokenDialogProps = {
  readonly ws: string
  readonly rights: Rights
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

type Fields = Omit<NewToken, 'scope' | 'allowedIps'> & { readonly scope: Scope; readonly addresses: string }

const newToken: Fields = { name: '', permission: 'read', scope: nothing, expiresIn: '60d', addresses: '' }

/** Rendered while it is open, so that closing drops everything, the token included. */
export function TokenDialog({ ws, rights, teams, onClose }: TokenDialogProps) {
  const { workspace, canWrite } = rights
  const own = useMemo(() => reachOf(workspace), [workspace])
  const [fields, setFields] = useState(newToken)
  const [issued, setIssued] = useState<IssuedToken>()
  const change = (part: Partial<Fields>) => setFields({ ...fields, ...part })
  const create = useAction(async () => {
    const { addresses, ...token } = fields
    const allowedIps = addresses.split(/[\s,]+/).filter(Boolean)
    setIssued(await createToken(ws, { ...token, ...(allowedIps.length > 0 && { allowedIps }) }))
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void create.run()
  }

  if (issued) {
    return <TokenValueDialog issued={issued} place={examplePlace(workspace, issued.scope, teams)} onClose={onClose} />
  }
  const end = endOf(fields.expiresIn, Date.now())
  const actions = (
    <>
      <Button disabled={create.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="token" kind="primary" isBusy={create.isBusy} disabled={isNothing(fields.scope)}>
        Create token
      </Button>
    </>
  )
  return (
    <Dialog title="New token" isOpen keepsOpen isBusy={create.isBusy} onClose={onClose} actions={actions}>
      <form id="token" onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Name"
          required
          autoFocus
          maxLength={64}
          hint="Says where it is used, such as the pipeline or server."
          value={fields.name}
          error={fieldError(create.error, 'name')}
          onChange={({ target }) => change({ name: target.value })}
        />
        <PermissionField
          value={fields.permission}
          canWrite={canWrite}
          onChange={(permission) => change({ permission })}
        />
        <ScopeField
          teams={teams}
          own={own}
          value={fields.scope}
          error={fieldError(create.error, 'scope')}
          onChange={(scope) => change({ scope })}
        />
        <SelectField
          label="Expires after"
          value={fields.expiresIn}
          hint={end && `On ${dayOf(end)}. You can rotate it, but not extend it.`}
          onChange={({ target }) =>
            change({ expiresIn: lifetimes.find(({ value }) => value === target.value)?.value ?? '60d' })
          }
        >
          {lifetimes.map(({ value, name }) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </SelectField>
        {end === undefined && (
          <Note tone="warn">If this token leaks, it works until somebody revokes it. Prefer one that expires.</Note>
        )}
        <TextField
          label="Only from these addresses (optional)"
          hint="Addresses or ranges, such as 192.0.2.0/24, separated by commas."
          className="font-mono"
          value={fields.addresses}
          error={fieldError(create.error, 'allowedIps')}
          onChange={({ target }) => change({ addresses: target.value })}
        />
        <ErrorNote error={errorBeside(create.error, 'name', 'scope', 'allowedIps')} />
      </form>
    </Dialog>
  )
}
