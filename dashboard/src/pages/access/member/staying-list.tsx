/** Lists the things that a person made and that stay when they leave, and offers to end each. */
import type { Removal, TeamGroup } from '@coffer/sdk'
import type { ReactNode } from 'react'
import { useState } from 'react'
import { api } from '../../../api/client.ts'
import { queryClient } from '../../../api/query-client.ts'
import { useAction } from '../../../parts/action.ts'
import { Badge } from '../../../parts/badge.tsx'
import { Button } from '../../../parts/button.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { plural } from '../../../parts/plural.ts'
import { say } from '../../../parts/toast.tsx'
import '../service/ending-list.css'

type StayingListProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly stays: Removal['stays']
}

type Thing = { readonly id: string; readonly name: string; readonly remark: ReactNode; end(): Promise<unknown> }

export function StayingList({ ws, teams, stays }: StayingListProps) {
  const things = listThings(ws, teams, stays)
  if (things.length === 0) return null
  return (
    <>
      <p>This stays, although they made it or may know its value. End what should not stay:</p>
      <ul className="endings" aria-label="Stays">
        {things.map((thing) => (
          <Staying key={thing.id} ws={ws} thing={thing} />
        ))}
      </ul>
    </>
  )
}

function listThings(ws: string, teams: readonly TeamGroup[], stays: Removal['stays']): Thing[] {
  const projects = teams.flatMap((team) => team.projects)
  const projectName = (id: string) => projects.find((project) => project.id === id)?.name
  return [
    ...stays.serviceAccounts.map(({ id, name, tokens }) => ({
      id,
      name: `service account ${name}`,
      remark: tokens === 0 ? 'no tokens' : `${plural(tokens, 'token')} would end with it`,
      end: () => api.service.remove({ ws, id }),
    })),
    ...stays.tokens.map(({ id, name, serviceAccountName }) => ({
      id,
      name: `token ${name}`,
      remark: `of the service account ${serviceAccountName}; they created it and may know its value`,
      end: () => api.token.revoke({ ws, id }),
    })),
    ...stays.identities.map(({ id, name, issuer, isMakerKnown }) => ({
      id,
      name: `identity ${name}`,
      remark: isMakerKnown ? issuer : `${issuer}; nobody recorded who made it`,
      end: () => api.oidc.delete({ ws, id }),
    })),
    ...stays.syncs.map(({ id, name, projectId }) => ({
      id,
      name: `sync ${name}`,
      remark: `${projectName(projectId) ?? ''}, runs for a service account; its entries at the target stay`,
      end: () => api.sync.delete({ ws, prj: projectId, id }),
    })),
    ...stays.shares.map(({ id, label, projectId }) => ({
      id,
      name: label === '' ? 'share' : `share ${label}`,
      remark: `${projectName(projectId) ?? ''}, made with a token of a service account`,
      end: () => api.share.revoke({ ws, prj: projectId, id }),
    })),
  ]
}

function Staying({ ws, thing }: { readonly ws: string; readonly thing: Thing }) {
  const { name, remark, end } = thing
  const [hasEnded, setEnded] = useState(false)
  const { run, isBusy, error } = useAction(async () => {
    await end()
    setEnded(true)
    say(`The ${name} has ended.`)
    for (const list of ['service-accounts', 'tokens', 'identities', 'syncs', 'shares']) {
      await queryClient.invalidateQueries({ queryKey: [list, ws] })
    }
  })
  return (
    <li>
      <div className="ending">
        <div className="min-w-0 flex-1">
          <b>{name}</b>
          <span className="hint">{remark}</span>
        </div>
        {hasEnded ? (
          <Badge>ended</Badge>
        ) : (
          <Button kind="danger" isBusy={isBusy} aria-label={`End ${name}`} onClick={() => void run()}>
            End
          </Button>
        )}
      </div>
      <ErrorNote error={error} />
    </li>
  )
}
