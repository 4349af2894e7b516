import type { Confirmation, IssuedToken, NewToken, Scope, ServiceAccount, TeamGroup, Workspace } from '@coffer/sdk'
import { type FormEvent, useMemo, useState } from 'react'
import { holdsRoleWithin, reachOf } from '../../../api/right.ts'
import { createServiceToken } from '../../../api/service-account.ts'
import { createToken } from '../../../api/token.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ConfirmationField, confirmationFields, confirmationOf, isConfirmed } from '../../../parts/confirmation.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { CheckField, SelectField, TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { Note } from '../../../parts/note.tsx'
import { isNothing, nothing, reachedTeams } from '../../../parts/scope/scope.ts'
import { ScopeField } from '../../../parts/scope/scope-field.tsx'
import { dayOf } from '../../../parts/time.tsx'
import { PermissionField } from '../permission-field.tsx'
import { endOf, lifetimes } from './lifetime.ts'
import { examplePlace } from './token-snippets.ts'
import { TokenValueDialog } from './token-value.tsx'

type TokenDialogProps = {
  readonly ws: string
  readonly workspace: Workspace
  /** Whose token it becomes: without one, that of the person. */
  readonly account?: ServiceAccount
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

type Fields = Omit<NewToken, 'scope' | 'allowedIps' | keyof Confirmation> & {
  readonly scope: Scope
  readonly addresses: string
}

const newToken: Fields = { name: '', permission: 'read', scope: nothing, expiresIn: '60d', addresses: '' }

/** The first token of a service account is usually the one that it was created for. */
const firstFields = (account: ServiceAccount | undefined): Fields =>
  account ? { ...newToken, name: account.tokens === 0 ? account.name : '', scope: reachOf(account) } : newToken

/** Rendered while it is open, so that closing drops everything, the token included. */
export function TokenDialog({ ws, workspace, account, teams, onClose }: TokenDialogProps) {
  const holder = account ?? workspace
  const own = useMemo(() => reachOf(holder), [holder])
  const offered = useMemo(() => reachedTeams(own, teams), [own, teams])
  const canWrite = holder.grants.some(({ role }) => role !== 'member')
  const [fields, setFields] = useState(() => firstFields(account))
  const [confirmation, setConfirmation] = useState<Confirmation>({})
  const [issued, setIssued] = useState<IssuedToken>()
  // The mark is for what belongs to the whole workspace, and for people.
  const mayOffer = !account && workspace.grants.some(({ role, scope }) => role === 'admin' && scope.all)
  const isMarked = fields.mayAdminister === true
  const change = (part: Partial<Fields>) => setFields({ ...fields, ...part })
  const create = useAction(async () => {
    const { addresses, ...token } = { ...fields, ...(isMarked && confirmationOf(confirmation)) }
    const allowedIps = addresses.split(/[\s,]+/).filter(Boolean)
    const wanted = { ...token, ...(allowedIps.length > 0 && { allowedIps }) }
    setIssued(await (account ? createServiceToken(ws, account.id, wanted) : createToken(ws, wanted)))
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void create.run()
  }

  if (issued) {
    return <TokenValueDialog issued={issued} place={examplePlace(workspace, issued.scope, teams)} onClose={onClose} />
  }
  const isReadOnly =
    fields.permission === 'read-write' &&
    !isNothing(fields.scope) &&
    !holdsRoleWithin(holder, 'developer', fields.scope, teams)
  const end = endOf(fields.expiresIn, Date.now())
  const actions = (
    <>
      <Button disabled={create.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button
        type="submit"
        form="token"
        kind="primary"
        isBusy={create.isBusy}
        disabled={isNothing(fields.scope) || isReadOnly || (isMarked && !isConfirmed(confirmation))}
      >
        Create token
      </Button>
    </>
  )
  return (
    <Dialog
      title={account ? `New token of ${account.name}` : 'New token'}
      isOpen
      keepsOpen
      isBusy={create.isBusy}
      onClose={onClose}
      actions={actions}
    >
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
          limit={holder.grants.length > 1 ? (account ? 'the account' : 'you') : undefined}
          onChange={(permission) => change({ permission })}
        />
        <ScopeField
          teams={offered}
          own={own}
          value={fields.scope}
          error={fieldError(create.error, 'scope')}
          onChange={(scope) => change({ scope })}
        />
        {isReadOnly && (
          <Note tone="warn">
            {account ? account.name : 'You'} can only read in this scope: choose the permission Read, or another scope.
          </Note>
        )}
        <SelectField
          label="Expires after"
          value={fields.expiresIn}
          hint={end && `On ${dayOf(end)}. You can rotate it, but not extend it.`}
          error={fieldError(create.error, 'expiresIn')}
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
        {mayOffer && (
          <CheckField
            label="May manage access"
            hint="Members, invites, service accounts and identities, with the permission Read and write and the scope Everything. Such a token lives 3 months at most."
            checked={isMarked}
            onChange={({ target }) => change({ mayAdminister: target.checked })}
          />
        )}
        {isMarked && <ConfirmationField value={confirmation} error={create.error} onChange={setConfirmation} />}
        <ErrorNote
          error={errorBeside(create.error, 'name', 'scope', 'expiresIn', 'allowedIps', ...confirmationFields)}
        />
      </form>
    </Dialog>
  )
}
