import type { Grant, Scope, ServiceAccount, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { changeServiceAccount, createServiceAccount } from '../../../api/service-account.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { nothing } from '../../../parts/scope/scope.ts'
import { say } from '../../../parts/toast.tsx'
import { isIncomplete } from '../grant/grants.ts'
import { GrantsField } from '../grant/grants-field.tsx'

type AccountDialogProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  /** Absent for a new one. */
  readonly account?: ServiceAccount
  readonly onCreated?: (account: ServiceAccount) => void
  readonly onClose: () => void
}

/** Most machines read one environment. */
const firstGrants: readonly Grant[] = [{ role: 'member', scope: nothing }]

/** Name and grants of a service account. A new one goes on to its first token. */
export function AccountDialog({ ws, teams, own, account, onCreated, onClose }: AccountDialogProps) {
  const [name, setName] = useState(account?.name ?? '')
  const [grants, setGrants] = useState<readonly Grant[]>(account?.grants ?? firstGrants)
  const save = useAction(async () => {
    const fields = { name, grants: [...grants] }
    if (!account) return onCreated?.(await createServiceAccount(ws, fields))
    await changeServiceAccount(ws, account.id, fields)
    say(`${name} has changed.`)
    onClose()
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void save.run()
  }

  const actions = (
    <>
      <Button disabled={save.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="account" kind="primary" isBusy={save.isBusy} disabled={isIncomplete(grants)}>
        {account ? 'Save' : 'Create, then its first token'}
      </Button>
    </>
  )
  return (
    <Dialog
      title={account ? `Access of ${account.name}` : 'New service account'}
      isOpen
      keepsOpen
      isBusy={save.isBusy}
      onClose={onClose}
      actions={actions}
    >
      <form id="account" onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Name"
          required
          autoFocus
          maxLength={64}
          hint="The machine that it stands for, such as the pipeline or server."
          value={name}
          error={fieldError(save.error, 'name')}
          onChange={({ target }) => setName(target.value)}
        />
        <GrantsField
          holder="machine"
          teams={teams}
          own={own}
          value={grants}
          error={fieldError(save.error, 'scope')}
          onChange={setGrants}
        />
        {account && <p className="hint">It takes effect with the next request of each of its tokens.</p>}
        <ErrorNote error={errorBeside(save.error, 'name', 'scope')} />
      </form>
    </Dialog>
  )
}
