import type { Token } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { serviceAccountsQuery, transferToken } from '../../../api/service-account.ts'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField } from '../../../parts/field.tsx'
import { fieldError } from '../../../parts/field-error.ts'
import { FormDialog } from '../../../parts/form-dialog.tsx'
import { Skeleton } from '../../../parts/page.tsx'
import { say } from '../../../parts/toast.tsx'

type TransferDialogProps = { readonly ws: string; readonly token: Token; readonly onClose: () => void }

/** Gives a token to a service account. */
export function TransferDialog({ ws, token, onClose }: TransferDialogProps) {
  const { data: all, error } = useQuery(serviceAccountsQuery(ws))
  const accounts = all?.filter(({ id }) => id !== token.ownerId) ?? []
  const [chosenId, setChosenId] = useState('')
  const chosen = accounts.find(({ id }) => id === chosenId)
  const title = `Transfer ${token.name}`
  if (accounts.length === 0) {
    return (
      <Dialog title={title} isOpen onClose={onClose}>
        <ErrorNote error={error} />
        {!all && !error && <Skeleton rows={2} />}
        {all && (
          <p>
            A token is transferred to a service account, and there is no other one yet. Create one under{' '}
            <Link className="link" to="/$ws/-/access/service-accounts" params={{ ws }}>
              Service accounts
            </Link>
            .
          </p>
        )}
      </Dialog>
    )
  }

  async function save(): Promise<void> {
    await transferToken(ws, token.id, chosenId)
    say(`The token ${token.name} now belongs to ${chosen?.name ?? 'the service account'}.`)
  }

  return (
    <FormDialog
      title={title}
      description={`It belongs to ${token.ownerName}, and ends when they are removed. Its value, scope and expiry stay: nothing has to change where it is used.`}
      action="Transfer"
      onClose={onClose}
      save={save}
      fields={['serviceAccountId']}
    >
      {(problem) => (
        <SelectField
          label="Service account"
          required
          autoFocus
          hint="Its grants must include all that the token may do."
          value={chosenId}
          error={fieldError(problem, 'serviceAccountId')}
          onChange={({ target }) => setChosenId(target.value)}
        >
          <option value="">Choose a service account</option>
          {accounts.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      )}
    </FormDialog>
  )
}
