import type { ServiceAccount, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { removeServiceAccount, serviceRemovalQuery } from '../../../api/service-account.ts'
import { ConfirmDialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { Skeleton } from '../../../parts/page.tsx'
import { say } from '../../../parts/toast.tsx'
import { EndingList } from './ending-list.tsx'

type RemoveAccountProps = {
  readonly ws: string
  readonly account: ServiceAccount
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

export function RemoveAccountDialog({ ws, account, teams, onClose }: RemoveAccountProps) {
  const { data: removal, error } = useQuery(serviceRemovalQuery(ws, account.id))
  return (
    <ConfirmDialog
      title={`Remove ${account.name}`}
      isOpen
      onClose={onClose}
      action="Remove"
      isWaiting={!removal}
      onConfirm={async () => {
        await removeServiceAccount(ws, account.id)
        say(`The service account ${account.name} is removed.`)
      }}
    >
      <p>{account.name} loses access to this workspace at once. This cannot be undone.</p>
      <ErrorNote error={error} />
      {!removal && !error && <Skeleton rows={2} />}
      {removal && <EndingList ws={ws} teams={teams} removal={removal} exceptId={account.id} />}
    </ConfirmDialog>
  )
}
