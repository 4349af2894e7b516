import type { TeamGroup, Token } from '@coffer/sdk'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { membersQuery } from '../../api/member.ts'
import { reachOf } from '../../api/right.ts'
import { revokeToken, tokensQuery } from '../../api/token.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu } from '../../parts/menu.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { scopeInWords } from '../../parts/scope/scope.ts'
import { Table } from '../../parts/table.tsx'
import { absoluteTime, dayOf, Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { AccessPage } from './access-page.tsx'
import { permissionName } from './permission-field.tsx'
import { isEnded, stateOf } from './token/lifetime.ts'
import { RotateDialog } from './token/rotate-dialog.tsx'
import { SnippetList } from './token/snippet-list.tsx'
import { TokenDialog } from './token/token-dialog.tsx'
import { examplePlace, tokenSnippets } from './token/token-snippets.ts'
import { TransferDialog } from './token/transfer-dialog.tsx'
import './access.css'

type Step =
  | { readonly kind: 'create' }
  | { readonly kind: 'rotate'; readonly token: Token }
  | { readonly kind: 'revoke'; readonly token: Token }
  | { readonly kind: 'transfer'; readonly token: Token }

const route = getRouteApi('/signed-in/$ws')

export function Tokens() {
  const { ws } = route.useParams()
  const { workspace, canManageWorkspace } = useRights()
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const list = useInfiniteQuery(tokensQuery(ws))
  const [step, setStep] = useState<Step>()
  const [showsEnded, setShowsEnded] = useState(false)
  const close = () => setStep(undefined)
  const tokens = list.data?.pages.flatMap(({ items }) => items) ?? []
  const now = Date.now()
  const ended = tokens.filter((token) => isEnded(stateOf(token, now)))
  const shown = showsEnded ? tokens : tokens.filter((token) => !ended.includes(token))
  const action = (
    <Button kind="primary" onClick={() => setStep({ kind: 'create' })}>
      New token
    </Button>
  )
  return (
    <AccessPage actions={action}>
      <ErrorNote error={list.error} />
      {list.isPending && <Skeleton />}
      {list.data && shown.length === 0 && !list.hasNextPage && (
        <EmptyState title={ended.length > 0 ? 'No token works now' : 'No tokens yet'}>
          <p className="mb-4">
            A token lets a program read secrets: a pipeline, a server, a cluster. Give each its own, for one
            environment.
          </p>
          <SnippetList snippets={tokenSnippets(examplePlace(workspace, reachOf(workspace), teams))} />
        </EmptyState>
      )}
      {shown.length > 0 && (
        <TokenTable ws={ws} tokens={shown} teams={teams} isManager={canManageWorkspace} onStep={setStep} />
      )}
      {ended.length > 0 && (
        <CheckField
          label={`Show revoked and expired tokens (${ended.length})`}
          checked={showsEnded}
          onChange={({ target }) => setShowsEnded(target.checked)}
        />
      )}
      {list.hasNextPage && (
        <Button className="self-start" isBusy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
          Load more
        </Button>
      )}
      {step?.kind === 'create' && <TokenDialog ws={ws} workspace={workspace} teams={teams} onClose={close} />}
      {step?.kind === 'rotate' && (
        <RotateDialog ws={ws} token={step.token} workspace={workspace} teams={teams} onClose={close} />
      )}
      {step?.kind === 'transfer' && <TransferDialog ws={ws} token={step.token} onClose={close} />}
      {step?.kind === 'revoke' && <RevokeDialog ws={ws} token={step.token} onClose={close} />}
    </AccessPage>
  )
}

type TokenTableProps = {
  readonly ws: string
  readonly tokens: readonly Token[]
  readonly teams: readonly TeamGroup[]
  readonly isManager: boolean
  readonly onStep: (step: Step) => void
}

function TokenTable({ ws, tokens, teams, isManager, onStep }: TokenTableProps) {
  const { data: members = [] } = useQuery({ ...membersQuery(ws), enabled: isManager })
  const creatorOf = (token: Token) => members.find(({ user }) => user.id === token.createdById)
  const columns = ['Name', 'Permission', 'Scope', ...(isManager ? ['Owner'] : []), 'Created', 'Expires', 'Last used']
  return (
    <Table label="Tokens" columns={[...columns, '']}>
      {tokens.map((token) => {
        const { id, name, prefix, permission, scope, createdAt, type, ownerType, mayAdminister } = token
        const creator = creatorOf(token)
        const hasEnded = isEnded(stateOf(token, Date.now()))
        // Rotating shows the new value, which must not give an admin the rights of the owner or personal values.
        const isOthers = ownerType === 'user' && !token.isOwner
        const isHeld =
          isOthers && (mayAdminister || type === 'cli' || (creator?.isOwner !== false && permission !== 'read'))
        const entry = (text: string, kind: 'rotate' | 'transfer' | 'revoke') => ({
          text,
          onSelect: () => onStep({ kind, token }),
        })
        const groups = [
          [
            ...(isHeld ? [] : [entry('Rotate', 'rotate')]),
            ...(isManager && type !== 'cli' && !mayAdminister ? [entry('Transfer', 'transfer')] : []),
          ],
          [{ ...entry('Revoke', 'revoke'), kind: 'danger' as const }],
        ]
        return (
          <tr key={id}>
            <th scope="row">
              {name}
              <span className="hint font-mono font-normal">{prefix}…</span>
            </th>
            <td>
              {permissionName(permission)} {mayAdminister && <Badge tone="warn">manages access</Badge>}
            </td>
            <td>{scopeInWords(scope, teams)}</td>
            {isManager && (
              <td>
                {token.isOwner && ownerType === 'user' ? 'you' : token.ownerName}
                {ownerType === 'service' && <span className="hint">service account</span>}
              </td>
            )}
            <td className="text-soft whitespace-nowrap">
              <Time at={createdAt} />
            </td>
            <td className="whitespace-nowrap">
              <Expiry token={token} />
            </td>
            <td className="text-soft whitespace-nowrap">
              <LastUse token={token} />
            </td>
            <td className="text-right">
              {!hasEnded && <Menu label={`Actions for ${name}`} trigger={<Icon name="more" />} groups={groups} />}
            </td>
          </tr>
        )
      })}
    </Table>
  )
}

function Expiry({ token }: { readonly token: Token }) {
  const state = stateOf(token, Date.now())
  if (state === 'revoked') return <Badge>revoked</Badge>
  if (token.expiresAt === null) return <Badge tone="warn">never</Badge>
  if (state === 'expired') return <Badge tone="bad">expired</Badge>
  if (state === 'expiring') {
    return (
      <Badge tone="warn">
        <Time at={token.expiresAt} />
      </Badge>
    )
  }
  return (
    <time className="text-soft" dateTime={token.expiresAt} title={absoluteTime(token.expiresAt)}>
      {dayOf(token.expiresAt)}
    </time>
  )
}

function LastUse({ token: { lastUsedAt, lastUsedIp } }: { readonly token: Token }) {
  if (lastUsedAt === null) return 'never'
  return (
    <>
      <Time at={lastUsedAt} />
      {lastUsedIp && <span className="hint font-mono">{lastUsedIp}</span>}
    </>
  )
}

function RevokeDialog({ ws, token, onClose }: { ws: string; token: Token; onClose: () => void }) {
  const { id, name, prefix, lastUsedAt, lastUsedIp } = token
  return (
    <ConfirmDialog
      title={`Revoke ${name}`}
      isOpen
      onClose={onClose}
      action="Revoke"
      onConfirm={async () => {
        await revokeToken(ws, id)
        say(`The token ${name} no longer works.`)
      }}
    >
      <p>
        The token <b>{name}</b> (<code>{prefix}…</code>) stops working at once, for good.
      </p>
      {lastUsedAt === null ? (
        <p>It has never been used.</p>
      ) : (
        <p>
          It was last used <Time at={lastUsedAt} />
          {lastUsedIp && ` from ${lastUsedIp}`}. Whatever uses it loses access.
        </p>
      )}
    </ConfirmDialog>
  )
}
