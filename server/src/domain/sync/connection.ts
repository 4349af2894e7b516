/** Finds the provider of a sync, and connects to its target. */
import { Failure } from '../../failure.ts'
import type { Connection, Provider, Values } from '../../providers/provider.ts'
import { createVendorHttp } from '../../providers/vendor-http.ts'
import { outboundFor } from '../access/outbound-reach.ts'
import type { Services } from '../context.ts'

/** Loaded with the first sync, because most installations use few providers and startup should not wait for them. */
export const loadRegistry = () => import('../../providers/registry.ts')

export async function findProvider(slug: string): Promise<Provider | undefined> {
  const { providers } = await loadRegistry()
  return providers.find((provider) => provider.slug === slug)
}

export async function requireProvider(slug: string): Promise<Provider> {
  const provider = await findProvider(slug)
  if (provider) return provider
  const { announced } = await loadRegistry()
  const coming = announced.find((candidate) => candidate.slug === slug)
  if (coming) throw new Failure('conflict', `${coming.name} is announced but cannot be set up yet.`)
  throw new Failure('notFound')
}

type Entered = { readonly credential: Values; readonly target: Values; readonly options: Values }

/** Request limit for a wizard step or a plan: enough for the longest lists of any vendor. */
const maxRequestsOfStep = 2_000

export async function connectTo(
  services: Services,
  provider: Provider,
  { id: syncId, workspaceId }: { readonly id: string; readonly workspaceId: string },
  { credential, target, options }: Entered,
  signal?: AbortSignal,
): Promise<Connection> {
  const { now, sleep, syncStats } = services
  const http = createVendorHttp({
    outbound: await outboundFor(services, workspaceId),
    now,
    sleep,
    perSecond: provider.limits.rate.perSecond,
    ...(signal ? { signal } : { maxRequests: maxRequestsOfStep }),
    onAnswer(status) {
      syncStats.calls++
      if (status === 429) syncStats.throttled++
    },
  })
  return { http, credential, target, options, syncId, now }
}
