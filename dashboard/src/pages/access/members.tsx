import type { Member, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { membersQuery, resetSecondFactor } from '../../api/member.ts'
import { meQuery } from '../../api/session.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../parts/menu.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { everything } from '../../parts/scope/scope.ts'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { AccessPage, ManagersOnly } from './access-page.tsx'
import { grantsInWords } from './grant/grants.ts'
import { InviteDialog } from './member/invite-dialog.tsx'
import { MemberDialog } from './member/member-dialog.tsx'
import { RemoveDialog } from './member/remove-dialog.tsx'
import { ResendDialog } from './member/resend-dialog.tsx'

export function Members() {
  const { canManageWorkspace } = useRights()
  return canManageWorkspace ? <MemberList /> : <ManagersOnly what="members" />
}

/** The dialog on top of the list; one at a time. */
type Step =
  | { readonly kind: 'invite' }
  | { readonly kind: 'change' | 'resend' | 'reset' | 'remove'; readonly member: Member }

const route = getRouteApi('/signed-in/$ws')
const mailCheckMs = 5_000

function MemberList() {
  const { ws } = route.useParams()
  const { data: me } = useQuery(meQuery)
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const members = useQuery({
    ...membersQuery(ws),
    refetchInterval: ({ state }) => (state.data?.some(({ mail }) => mail === 'sending') ? mailCheckMs : false),
  })
  const [step, setStep] = useState<Step>()
  const close = () => setStep(undefined)
  const isSelf = (member: Member) => member.user.id !== '' && member.user.id === me?.id
  const grant = { ws, teams, own: everything, onClose: close }
  const action = (
    <Button kind="primary" onClick={() => setStep({ kind: 'invite' })}>
      Invite
    </Button>
  )
  return (
    <AccessPage actions={action}>
      <ErrorNote error={members.error} />
      {members.isPending && <Skeleton />}
      {members.data && (
        <Table label="Members and invites" columns={['Person', 'Access', 'Status', 'Invited', '']}>
          {members.data.map((member) => (
            <MemberRow key={member.id} member={member} isSelf={isSelf(member)} teams={teams} onStep={setStep} />
          ))}
        </Table>
      )}
      {step?.kind === 'invite' && <InviteDialog {...grant} />}
      {step?.kind === 'change' && <MemberDialog {...grant} member={step.member} isSelf={isSelf(step.member)} />}
      {step?.kind === 'resend' && <ResendDialog ws={ws} member={step.member} onClose={close} />}
      {step?.kind === 'reset' && <ResetDialog ws={ws} member={step.member} onClose={close} />}
      {step?.kind === 'remove' && <RemoveDialog ws={ws} member={step.member} teams={teams} onClose={close} />}
    </AccessPage>
  )
}

type RowProps = {
  readonly member: Member
  readonly isSelf: boolean
  readonly teams: readonly TeamGroup[]
  readonly onStep: (step: Step) => void
}

function MemberRow({ member, isSelf, teams, onStep }: RowProps) {
  const { user, grants, isOwner, invitedAt, status } = member
  const isMember = status === 'account-created'
  const entry = (text: string, kind: 'change' | 'resend' | 'reset' | 'remove'): MenuEntry => {
    return { text, onSelect: () => onStep({ kind, member }), kind: kind === 'remove' ? 'danger' : 'normal' }
  }
  const groups = [
    [
      entry('Change access', 'change'),
      ...(isMember ? [] : [entry('New link', 'resend')]),
      // Their own second factor is removed on the page of their account, which asks for the password.
      ...(isMember && !isSelf ? [entry('Reset second factor', 'reset')] : []),
    ],
    [entry(isMember ? 'Remove' : 'Withdraw invite', 'remove')],
  ]
  return (
    <tr>
      <th scope="row">
        {user.name || user.email} {isSelf && <span className="text-soft font-normal">(you)</span>}
        {user.name !== '' && <span className="hint font-normal">{user.email}</span>}
      </th>
      <td className="min-w-40">{isOwner ? 'Owner' : grantsInWords(grants, teams)}</td>
      <td>
        <MemberStatus member={member} />
      </td>
      <td className="text-soft whitespace-nowrap">
        <Time at={invitedAt} />
      </td>
      <td className="text-right">
        {!isOwner && <Menu label={`Actions for ${user.email}`} trigger={<Icon name="more" />} groups={groups} />}
      </td>
    </tr>
  )
}

const mailTexts = { off: '', sending: 'mail on its way', sent: 'mail sent', failed: 'mail failed' } as const

function MemberStatus({ member: { status, user, mail = 'off', expiresAt } }: { readonly member: Member }) {
  if (status === 'account-created') {
    return user.emailVerified ? <Badge tone="good">Address confirmed</Badge> : <Badge>Address not confirmed</Badge>
  }
  if (status === 'declined') return <Badge tone="warn">Declined</Badge>
  if (status === 'expired') return <Badge tone="warn">Invite expired</Badge>
  return (
    <span className="flex flex-wrap items-center gap-2">
      <Badge tone="accent">Invited</Badge>
      <span className="text-s text-soft">
        {expiresAt !== undefined && (
          <>
            expires <Time at={expiresAt} />
          </>
        )}
        {mailTexts[mail] !== '' && `, ${mailTexts[mail]}`}
      </span>
    </span>
  )
}

type ConfirmProps = { readonly ws: string; readonly member: Member; readonly onClose: () => void }

function ResetDialog({ ws, member: { id, user }, onClose }: ConfirmProps) {
  return (
    <ConfirmDialog
      title={`Reset the second factor of ${user.email}`}
      isOpen
      onClose={onClose}
      action="Reset second factor"
      onConfirm={async () => {
        await resetSecondFactor(ws, id)
        say(`${user.email} can sign in with the password alone.`)
      }}
    >
      <p>
        Their authenticator app and recovery codes stop working: they sign in with the password alone, and can set up a
        new app. They are told by mail if this service sends mail. Make sure that it is really them who asked.
      </p>
    </ConfirmDialog>
  )
}
