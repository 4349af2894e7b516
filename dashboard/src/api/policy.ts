/** The policy of a workspace, which its owner sets. */
import type { Policy, ShutOut } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'

export const policyQuery = (ws: string) =>
  queryOptions({ queryKey: ['policy', ws], queryFn: () => api.workspace.readPolicy({ ws }) })

/** Everybody who would not meet the policy. Nothing is saved. */
export async function planPolicy(ws: string, policy: Policy): Promise<readonly ShutOut[]> {
  return (await api.workspace.updatePolicy({ ws }, { ...policy, dryRun: true })).shutOut
}

/** Everything of the workspace is read again: the policy may shut out the owner too. */
export async function savePolicy(ws: string, policy: Policy): Promise<void> {
  await api.workspace.updatePolicy({ ws }, policy)
  await queryClient.invalidateQueries({ predicate: ({ queryKey: [, of] }) => of === ws })
}
