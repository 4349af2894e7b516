/** Members and invites of a workspace. */
import type { IssuedInvite, MemberChange, NewInvite } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'
import { afresh } from './service-account.ts'
import { workspacesQuery } from './workspace.ts'

export const membersQuery = (ws: string) =>
  queryOptions({ queryKey: ['members', ws], queryFn: () => api.member.list({ ws }) })

/** The answer holds the link, which is shown once: it is returned, never cached. */
export async function invite(ws: string, fields: NewInvite): Promise<IssuedInvite> {
  const issued = await api.member.createInvite({ ws }, fields)
  await refresh(ws)
  return issued
}

export async function resendInvite(ws: string, id: string): Promise<IssuedInvite> {
  const issued = await api.member.resendInvite({ ws, id })
  await refresh(ws)
  return issued
}

export async function changeMember(ws: string, id: string, change: MemberChange): Promise<void> {
  await api.member.update({ ws, id }, change)
  await refresh(ws)
}

/** What would end with a member. */
export const memberRemovalQuery = (ws: string, id: string) =>
  queryOptions({
    queryKey: ['removal', ws, id],
    queryFn: () => api.member.remove({ ws, id }, { dryRun: true }),
    ...afresh,
  })

/** Their tokens end with the membership, so the list of tokens is read again too. */
export async function removeMember(ws: string, id: string): Promise<void> {
  await api.member.remove({ ws, id })
  await Promise.all([refresh(ws), queryClient.invalidateQueries({ queryKey: ['tokens', ws] })])
}

export async function resetSecondFactor(ws: string, id: string): Promise<void> {
  await api.member.resetMfa({ ws, id })
}

/** A person who changed their own role or scope sees other pages from now on. */
async function refresh(ws: string): Promise<void> {
  await Promise.all([
    queryClient.invalidateQueries({ queryKey: ['members', ws] }),
    queryClient.invalidateQueries({ queryKey: workspacesQuery.queryKey }),
  ])
}
