/** What a sync reads and where it writes: the secrets of its environment, and a connection to its target. */
import { createHmac } from 'node:crypto'
import { lengthPrefixed } from '../crypto/envelope.ts'
import { Failure, invalid } from '../failure.ts'
import type { Connection, Provider, Values } from '../providers/provider.ts'
import { createVendorHttp } from '../providers/vendor-http.ts'
import type { EnvironmentAccess } from './access.ts'
import type { Context, Services } from './context.ts'
import { namePlaces, refuseUnresolved } from './secret.ts'
import { loadProject, openValues, resolveRows } from './secret-read.ts'

/** Loaded with the first sync: most that is in it is never needed, and a start should not wait for it. */
export const loadRegistry = () => import('../providers/registry.ts')

export async function findProvider(slug: string): Promise<Provider | undefined> {
  const { providers } = await loadRegistry()
  return providers.find((provider) => provider.slug === slug)
}

export async function requireProvider(slug: string): Promise<Provider> {
  const provider = await findProvider(slug)
  if (provider) return provider
  const { announced } = await loadRegistry()
  const coming = announced.find((candidate) => candidate.slug === slug)
  if (coming) throw new Failure('conflict', `${coming.name} is announced; it cannot be set up yet.`)
  throw new Failure('notFound')
}

export type Source = {
  readonly secrets: ReadonlyMap<string, string>
  /** Its own environment, and those that references lead to: a change in any of them matters. */
  readonly environmentIds: readonly string[]
  readonly referenced: readonly string[]
}

/** A value of one's own is never pushed: the target would take it for everybody's. */
const nobody = ''

/** Throws a 409 that names the key, where a reference leads nowhere: half of the secrets are not pushed. */
export async function readSource(ctx: Context, access: EnvironmentAccess): Promise<Source> {
  const { environment } = access
  const advice = 'move some of the secrets to another environment'
  const { names, sealed } = await loadProject(ctx, access, [environment], nobody, { advice })
  const rows = await openValues(ctx, access, sealed, names)
  const resolution = await resolveRows(ctx, access, rows, names, { ownerId: nobody, onUnresolved: 'error' })
  refuseUnresolved(resolution.byRow, names)
  const secrets = new Map<string, string>()
  for (const [row, { value }] of resolution.byRow) secrets.set(names.get(row.secretId) ?? '', value)
  return {
    secrets,
    environmentIds: [...new Set([environment.id, ...resolution.environmentIds])],
    referenced: namePlaces(access, resolution.referenced),
  }
}

export type Entered = { readonly credential: Values; readonly target: Values; readonly options: Values }

/** Of a step of the wizard, or a plan: as many as the longest lists of the vendors need. */
const maxRequestsOfStep = 2_000

export function connectTo(
  services: Services,
  provider: Provider,
  syncId: string,
  { credential, target, options }: Entered,
  signal?: AbortSignal,
): Connection {
  const { outbound, now, sleep, syncStats } = services
  const http = createVendorHttp({
    outbound,
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

/** Tells values apart without telling anything about them: keyed, and bound to the name. */
export function macOf(macKey: string, name: string, value: string): string {
  return createHmac('sha256', Buffer.from(macKey, 'base64'))
    .update(lengthPrefixed([name, value]))
    .digest('base64url')
}

/** The same op of the same run has the same id, for vendors that ignore what they have done already. */
export function operationIdOf(macKey: string, fence: number, name: string, valueMac: string): string {
  const hash = createHmac('sha256', Buffer.from(macKey, 'base64'))
    .update(lengthPrefixed(['operation', String(fence), name, valueMac]))
    .digest()
  hash.writeUInt8(((hash[6] ?? 0) & 0x0f) | 0x40, 6)
  hash.writeUInt8(((hash[8] ?? 0) & 0x3f) | 0x80, 8)
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

export function requireAnswer(values: Values, id: string): string {
  const value = values[id]
  if (value === undefined || value === '') throw invalid(id, 'is required.')
  return value
}
