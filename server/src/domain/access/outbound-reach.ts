/** Which workspaces may connect to the private addresses that the operator has allowed. */
import type { OutboundReach, WorkspaceOutbound } from '../../outbound.ts'
import type { Services } from '../context.ts'

type Parts = Pick<Services, 'config' | 'snapshots'>

export async function reachOf({ config, snapshots }: Parts, workspaceId: string): Promise<OutboundReach> {
  const listed = config.outboundWorkspaces
  if (listed === 'all' || listed.has(workspaceId)) return 'allowed'
  if (listed.size === 0) return 'public'
  const slug = (await snapshots.get(workspaceId))?.workspace.slug
  return slug !== undefined && listed.has(slug) ? 'allowed' : 'public'
}

export async function outboundFor(
  services: Parts & Pick<Services, 'outbound'>,
  workspaceId: string,
): Promise<WorkspaceOutbound> {
  const reach = await reachOf(services, workspaceId)
  return { request: (request) => services.outbound.request({ ...request, reach }) }
}
