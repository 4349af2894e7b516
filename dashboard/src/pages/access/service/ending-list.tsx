/** What ends with a person or a service account, and the offer to give it to a service account before. */
import type { Removal, ServiceAccount, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { serviceAccountsQuery, transferSync, transferToken } from '../../../api/service-account.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField } from '../../../parts/field.tsx'
import { plural } from '../../../parts/plural.ts'
import { scopeInWords } from '../../../parts/scope/scope.ts'
import { Time } from '../../../parts/time.tsx'
import { say } from '../../../parts/toast.tsx'
import { permissionName } from '../permission-field.tsx'
import './ending-list.css'

type EndingListProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly removal: Removal
  /** A service account that ends itself takes nothing over. */
  readonly exceptId?: string
}

export function EndingList({ ws, teams, removal, exceptId }: EndingListProps) {
  const { data: all = [], isSuccess } = useQuery(serviceAccountsQuery(ws))
  const accounts = all.filter(({ id }) => id !== exceptId)
  const [chosenId, setChosenId] = useState('')
  const chosen = accounts.find(({ id }) => id === chosenId)
  const { tokens, syncs, shares, invites, personalValues } = removal
  const counts = [
    shares > 0 ? plural(shares, 'share') : '',
    personalValues > 0 ? plural(personalValues, 'personal value') : '',
  ].filter(Boolean)
  const projects = teams.flatMap((team) => team.projects)
  const hasLines = tokens.length + syncs.length > 0
  return (
    <>
      {!hasLines && <p>No token and no sync ends by this.</p>}
      {hasLines && (
        <>
          <p>
            {listed(tokens.length, syncs.length)} would end, and whatever uses them would stop working. To keep one,
            transfer it to a service account first.
          </p>
          {isSuccess && accounts.length === 0 && <NoAccounts />}
          {accounts.length > 0 && (
            <SelectField label="Transfer to" value={chosenId} onChange={({ target }) => setChosenId(target.value)}>
              <option value="">Choose a service account</option>
              {accounts.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </SelectField>
          )}
          <ul className="endings" aria-label="Ends">
            {tokens.map(({ id, name, permission, scope, mayAdminister, lastUsedAt }) => (
              <Ending
                key={id}
                name={`token ${name}`}
                account={chosen}
                isOffered={accounts.length > 0 && !mayAdminister}
                transfer={(accountId) => transferToken(ws, id, accountId)}
              >
                {permissionName(permission)}, {scopeInWords(scope, teams)},{' '}
                {mayAdminister && 'manages access and cannot be transferred, '}
                {lastUsedAt === null ? (
                  'never used'
                ) : (
                  <>
                    last used <Time at={lastUsedAt} />
                  </>
                )}
              </Ending>
            ))}
            {syncs.map(({ id, name, projectId }) => (
              <Ending
                key={id}
                name={`sync ${name}`}
                account={chosen}
                isOffered={accounts.length > 0}
                transfer={(accountId) => transferSync(ws, projectId, id, accountId)}
              >
                {projects.find((project) => project.id === projectId)?.name}, keeps its entries at the target and pushes
                no more
              </Ending>
            ))}
          </ul>
        </>
      )}
      {invites.length > 0 && (
        <p>
          {plural(invites.length, 'open invite')} of theirs {invites.length === 1 ? 'ends' : 'end'}:{' '}
          {invites.map(({ email }) => email).join(', ')}
        </p>
      )}
      {counts.length > 0 && (
        <p>
          {counts.join(' and ')} {shares + personalValues === 1 ? 'is' : 'are'} deleted for good.
        </p>
      )}
    </>
  )
}

const listed = (tokens: number, syncs: number) =>
  [tokens > 0 ? plural(tokens, 'token') : '', syncs > 0 ? plural(syncs, 'sync') : ''].filter(Boolean).join(' and ')

function NoAccounts() {
  const { ws } = useParams({ from: '/signed-in/$ws' })
  return (
    <p>
      There is no other service account yet. Create one under{' '}
      <Link className="link" to="/$ws/-/access/service-accounts" params={{ ws }}>
        Service accounts
      </Link>
      , and come back.
    </p>
  )
}

type EndingProps = {
  readonly name: string
  readonly account: ServiceAccount | undefined
  readonly isOffered: boolean
  readonly transfer: (accountId: string) => Promise<void>
  readonly children: ReactNode
}

function Ending({ name, account, isOffered, transfer, children }: EndingProps) {
  const { run, isBusy, error } = useAction(async () => {
    if (!account) return
    await transfer(account.id)
    say(`The ${name} now belongs to ${account.name}.`)
  })
  return (
    <li>
      <div className="ending">
        <div className="min-w-0 flex-1">
          <b>{name}</b>
          <span className="hint">{children}</span>
        </div>
        {isOffered && (
          <Button
            isBusy={isBusy}
            disabled={!account}
            aria-label={account ? `Transfer ${name} to ${account.name}` : `Transfer ${name}`}
            onClick={() => void run()}
          >
            Transfer
          </Button>
        )}
      </div>
      <ErrorNote error={error} />
    </li>
  )
}
