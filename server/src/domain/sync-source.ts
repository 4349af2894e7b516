/** What a sync reads and where it writes: the secrets of its environment, and a connection to its target. */
import { createHmac, type KeyObject } from 'node:crypto'
import { lengthPrefixed } from '../crypto/envelope.ts'
import { Failure, invalid } from '../failure.ts'
import type { Connection, Provider, Values } from '../providers/provider.ts'
import { createVendorHttp } from '../providers/vendor-http.ts'
import type { EnvironmentAccess } from './access.ts'
import type { Context, Services } from './context.ts'
import { namePlaces, tellUnresolved } from './secret.ts'
import { loadProject, type OpenValue, openValues, resolveRows } from './secret-read.ts'
import type { Place } from './secret-reference-graph.ts'
import type { Resolved } from './secret-reference-resolution.ts'
import { createTrail, type Trail } from './secret-trail.ts'

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
  /** What other values have come along in these. */
  referencedBy(keys: readonly string[]): readonly Place[]
  /** Why it may not be pushed: half of the secrets are not. */
  readonly refusal: string | undefined
}

/** A value of one's own is never pushed: the target would take it for everybody's. */
const nobody = ''

export async function readSource(ctx: Context, access: EnvironmentAccess): Promise<Source> {
  const { environment } = access
  const advice = 'move some of the secrets to another environment'
  const { names, sealed } = await loadProject(ctx, access, [environment], nobody, { advice })
  const rows = await openValues(ctx, access, sealed, names)
  const trail = createTrail(ctx, access)
  const options = { ownerId: nobody, onUnresolved: 'error', guard: trail } as const
  const { byRow, environmentIds } = await resolveRows(ctx, access, rows, names, options)
  const placeOf = (key: string) => ({ environmentId: environment.id, key })
  const secrets = new Map<string, string>()
  for (const [row, { value }] of byRow) secrets.set(names.get(row.secretId) ?? '', value)
  return {
    secrets,
    environmentIds: [...new Set([environment.id, ...environmentIds])],
    referencedBy: (keys) => trail.reachedFrom(keys.map(placeOf)),
    refusal: findRefusal(access, byRow, names, trail),
  }
}

/** As `readSource`, but a 409 where it may not be pushed. */
export async function requireSource(ctx: Context, access: EnvironmentAccess): Promise<Source> {
  const source = await readSource(ctx, access)
  if (source.refusal !== undefined) throw new Failure('conflict', source.refusal)
  return source
}

function findRefusal(
  access: EnvironmentAccess,
  byRow: ReadonlyMap<OpenValue, Resolved>,
  names: ReadonlyMap<string, string>,
  trail: Trail,
): string | undefined {
  for (const [row, { unresolved }] of byRow) {
    if (unresolved.length === 0) continue
    const key = names.get(row.secretId) ?? ''
    const stop = trail.findStop({ environmentId: row.environmentId, key })
    if (!stop) return tellUnresolved(key, unresolved)
    const isOwn = stop.at.key === key && stop.at.environmentId === row.environmentId
    const [place] = isOwn ? [key] : namePlaces(access, [stop.at])
    const way = isOwn ? `${key}: refers` : `${key}: leads to ${place}, which refers`
    const remedy = `Somebody who may read it deletes the value of ${place} and writes it anew, or an admin widens the scope of whoever wrote it.`
    return `${way} to ${stop.reference}, and whoever wrote that may not read it. ${remedy}`
  }
  return undefined
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
export function macOf(macKey: KeyObject, name: string, value: string): string {
  return createHmac('sha256', macKey)
    .update(lengthPrefixed([name, value]))
    .digest('base64url')
}

/** The same op of the same run has the same id, for vendors that ignore what they have done already. */
export function operationIdOf(macKey: KeyObject, fence: number, name: string, valueMac: string): string {
  const hash = createHmac('sha256', macKey)
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
