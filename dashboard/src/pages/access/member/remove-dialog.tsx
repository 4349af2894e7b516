import type { Member, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { memberRemovalQuery, removeMember } from '../../../api/member.ts'
import { ConfirmDialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { Skeleton } from '../../../parts/page.tsx'
import { say } from '../../../parts/toast.tsx'
import { EndingList } from '../service/ending-list.tsx'
import { StayingList } from './staying-list.tsx'

type RemoveDialogProps = {
  readonly ws: string
  readonly member: Member
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

export function RemoveDialog(props: RemoveDialogProps) {
  return props.member.status === 'account-created' ? <RemovePerson {...props} /> : <WithdrawInvite {...props} />
}

function WithdrawInvite({ ws, member: { id, user }, onClose }: RemoveDialogProps) {
  const { email } = user
  return (
    <ConfirmDialog
      title={`Withdraw the invite for ${email}`}
      isOpen
      onClose={onClose}
      action="Withdraw"
      onConfirm={async () => {
        await removeMember(ws, id)
        say(`The invite for ${email} is withdrawn.`)
      }}
    >
      <p>The link stops working. You can invite the address again.</p>
    </ConfirmDialog>
  )
}

function RemovePerson({ ws, member: { id, user }, teams, onClose }: RemoveDialogProps) {
  const { email } = user
  const { data: removal, error } = useQuery(memberRemovalQuery(ws, id))
  return (
    <ConfirmDialog
      title={`Remove ${email}`}
      isOpen
      onClose={onClose}
      action="Remove"
      isWaiting={!removal}
      onConfirm={async () => {
        await removeMember(ws, id)
        say(`${email} is no longer a member.`)
      }}
    >
      <p>
        {email} loses access to this workspace at once. Values that they wrote for everybody stay, and so does the audit
        log.
      </p>
      <ErrorNote error={error} />
      {!removal && !error && <Skeleton rows={2} />}
      {removal && <EndingList ws={ws} teams={teams} removal={removal} />}
      {removal && <StayingList ws={ws} teams={teams} stays={removal.stays} />}
    </ConfirmDialog>
  )
}
