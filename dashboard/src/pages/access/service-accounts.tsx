import type { ServiceAccount, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { serviceAccountsQuery } from '../../api/service-account.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../parts/menu.tsx'
import { Note } from '../../parts/note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { everything } from '../../parts/scope/scope.ts'
import { Table } from '../../parts/table.tsx'
import { absoluteTime, dayOf, Time } from '../../parts/time.tsx'
import { AccessPage, ManagersOnly } from './access-page.tsx'
import { grantsInWords } from './grant/grants.ts'
import { AccountDialog } from './service/account-dialog.tsx'
import { RemoveAccountDialog } from './service/remove-account-dialog.tsx'
import { isSoon, soonDays } from './token/lifetime.ts'
import { TokenDialog } from './token/token-dialog.tsx'

export function ServiceAccounts() {
  const { canManageWorkspace } = useRights()
  return canManageWorkspace ? <AccountList /> : <ManagersOnly what="service accounts" />
}

/** The dialog on top of the list; one at a time. */
type Step =
  | { readonly kind: 'create' }
  | { readonly kind: 'change' | 'token' | 'remove'; readonly account: ServiceAccount }

const route = getRouteApi('/signed-in/$ws')

function AccountList() {
  const { ws } = route.useParams()
  const { workspace } = useRights()
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const accounts = useQuery(serviceAccountsQuery(ws))
  const [step, setStep] = useState<Step>()
  const close = () => setStep(undefined)
  const form = { ws, teams, own: everything, onClose: close }
  const action = (
    <Button kind="primary" onClick={() => setStep({ kind: 'create' })}>
      New service account
    </Button>
  )
  return (
    <AccessPage actions={action}>
      <ErrorNote error={accounts.error} />
      {accounts.isPending && <Skeleton />}
      {accounts.data?.length === 0 && (
        <EmptyState title="No service accounts yet">
          <p>
            A service account is a machine of this workspace, such as a pipeline or a server. It has access and tokens
            of its own, which keep working when the person who set it up leaves.
          </p>
        </EmptyState>
      )}
      {accounts.data && accounts.data.length > 0 && (
        <>
          <ExpiryNote accounts={accounts.data} />
          <Table
            label="Service accounts"
            columns={['Name', 'Access', 'Tokens', 'First token expires', 'Last used', 'Created', '']}
          >
            {accounts.data.map((account) => (
              <AccountRow key={account.id} account={account} teams={teams} onStep={setStep} />
            ))}
          </Table>
        </>
      )}
      {step?.kind === 'create' && (
        <AccountDialog {...form} onCreated={(account) => setStep({ kind: 'token', account })} />
      )}
      {step?.kind === 'change' && <AccountDialog {...form} account={step.account} />}
      {step?.kind === 'token' && (
        <TokenDialog ws={ws} workspace={workspace} account={step.account} teams={teams} onClose={close} />
      )}
      {step?.kind === 'remove' && <RemoveAccountDialog ws={ws} account={step.account} teams={teams} onClose={close} />}
    </AccessPage>
  )
}

const names = new Intl.ListFormat('en')

function ExpiryNote({ accounts }: { readonly accounts: readonly ServiceAccount[] }) {
  const soon = accounts.filter(({ nextExpiryAt }) => isSoon(nextExpiryAt, Date.now()))
  if (soon.length === 0) return null
  return (
    <Note tone="warn">
      A token of {names.format(soon.map(({ name }) => name))} expires within {soonDays} days. Create another one, and
      put it in place before the old one ends.
    </Note>
  )
}

type RowProps = {
  readonly account: ServiceAccount
  readonly teams: readonly TeamGroup[]
  readonly onStep: (step: Step) => void
}

function AccountRow({ account, teams, onStep }: RowProps) {
  const { name, grants, tokens, lastUsedAt, createdAt } = account
  const entry = (text: string, kind: 'change' | 'token' | 'remove'): MenuEntry => {
    return { text, onSelect: () => onStep({ kind, account }), kind: kind === 'remove' ? 'danger' : 'normal' }
  }
  const groups = [[entry('New token', 'token'), entry('Change', 'change')], [entry('Remove', 'remove')]]
  return (
    <tr>
      <th scope="row">{name}</th>
      <td className="min-w-40">{grantsInWords(grants, teams)}</td>
      <td>{tokens === 0 ? <Badge tone="warn">none that works</Badge> : tokens.toLocaleString('en')}</td>
      <td className="whitespace-nowrap">
        <NextExpiry account={account} />
      </td>
      <td className="text-soft whitespace-nowrap">{lastUsedAt === null ? 'never' : <Time at={lastUsedAt} />}</td>
      <td className="text-soft whitespace-nowrap">
        <Time at={createdAt} />
      </td>
      <td className="text-right">
        <Menu label={`Actions for ${name}`} trigger={<Icon name="more" />} groups={groups} />
      </td>
    </tr>
  )
}

function NextExpiry({ account: { tokens, nextExpiryAt } }: { readonly account: ServiceAccount }) {
  if (nextExpiryAt === null) return <span className="text-soft">{tokens === 0 ? '' : 'never'}</span>
  if (Date.parse(nextExpiryAt) <= Date.now()) return <Badge tone="bad">expired</Badge>
  if (isSoon(nextExpiryAt, Date.now())) {
    return (
      <Badge tone="warn">
        <Time at={nextExpiryAt} />
      </Badge>
    )
  }
  return (
    <time className="text-soft" dateTime={nextExpiryAt} title={absoluteTime(nextExpiryAt)}>
      {dayOf(nextExpiryAt)}
    </time>
  )
}
