/** The two ends of a sync: the secrets of its environment, and a connection to its target. */
import { createHmac, type KeyObject } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { Failure, invalid } from '../../failure.ts'
import type { Connection, Provider, Values } from '../../providers/provider.ts'
import { createVendorHttp } from '../../providers/vendor-http.ts'
import { type Access, type EnvironmentAccess, reachesEnvironments } from '../access/access.ts'
import { outboundFor } from '../access/outbound-reach.ts'
import type { Context, Services } from '../context.ts'
import { loadProject } from '../secret/load.ts'
import { createTrail, isWithin, type Trail } from '../secret/reference/delegated.ts'
import { namePlaces, resolveRows } from '../secret/reference/follow.ts'
import type { Place } from '../secret/reference/graph.ts'
import type { Gap } from '../secret/reference/resolution.ts'
import { releaseSlots } from '../slot.ts'
import { chooser } from './mapping.ts'

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

export type Source = {
  readonly secrets: ReadonlyMap<string, string>
  /** The sync's environment and those that references lead to. A change in any of them makes the sync due. */
  readonly environmentIds: readonly string[]
  /** The other values that these keys include through references. */
  referencedBy(keys: readonly string[]): readonly Place[]
  /** A reason to push nothing: a target must never receive only a part of the secrets. */
  readonly refusal: Refusal | undefined
}

/**
 * `kept` is stored with the sync, and visible to everyone who may see it. They reach its environment, but perhaps not
 * those that references lead to, so `tellTo` names places there only to callers who reach them.
 */
export type Refusal = { readonly kept: string; tellTo(asker: Access): string }

/** Owner id that matches no one: a personal value must never be pushed, as everyone at the target would use it. */
const nobody = ''

/** Reads only the secrets that the mapping selects: an unresolved reference in another one must not block the sync. */
export async function readSource(ctx: Context, access: EnvironmentAccess, mapping: Values): Promise<Source> {
  const { environment } = access
  const advice = 'move some of the secrets to another environment'
  const { names, values } = await loadProject(ctx, access, [environment], nobody, { advice })
  const isChosen = chooser(mapping)
  const rows = values.filter(({ secretId }) => isChosen(names.get(secretId) ?? ''))
  const trail = createTrail(ctx, access)
  const options = { ownerId: nobody, onUnresolved: 'error', guard: trail } as const
  const { byRow, environmentIds } = await resolveRows(ctx, access, rows, names, options)
  const placeOf = (key: string) => ({ environmentId: environment.id, key })
  const secrets = new Map<string, string>()
  for (const [row, { value }] of byRow) secrets.set(names.get(row.secretId) ?? '', value)
  const roots = [...secrets.keys()].map(placeOf)
  return {
    secrets,
    environmentIds: [...new Set([environment.id, ...environmentIds])],
    referencedBy: (keys) => trail.reachedFrom(keys.map(placeOf)),
    refusal: findRefusal(access, roots, trail),
  }
}

/** Like `readSource`, but throws a 409 if the secrets may not be pushed. */
export async function requireSource(
  ctx: Context,
  access: EnvironmentAccess,
  mapping: Values,
  asker: Access,
): Promise<Source> {
  const source = await readSource(ctx, access, mapping)
  // The vendor call that comes next may be slow, and must not hold a slot.
  releaseSlots(ctx)
  if (source.refusal) throw new Failure('conflict', source.refusal.tellTo(asker))
  return source
}

function findRefusal(access: EnvironmentAccess, roots: readonly Place[], trail: Trail): Refusal | undefined {
  const found = roots.flatMap((root) => {
    const gap = trail.findGap(root)
    return gap ? [{ root, gap, isOwn: isWithin(root, gap) }] : []
  })
  // Gaps in the environment itself can be named to everybody, and other values there often lead to them.
  const held = [...found.filter(({ isOwn }) => isOwn), ...found.filter(({ isOwn }) => !isOwn)]
  const [worst] = held
  if (!worst) return undefined
  const countMore = (told: number, advice: string) =>
    held.length > told ? ` And ${held.length - told} more${advice}` : ''

  return {
    kept: `${tellOf(access, trail, worst, (id) => id === access.environment.id)}${countMore(1, ': see the plan of the sync.')}`,
    tellTo(asker) {
      const told = held
        .slice(0, mostTold)
        .map((one) => tellOf(access, trail, one, (id) => reachesEnvironments(asker, [id])))
      return `${told.join('\n')}${countMore(told.length, '.')}`
    },
  }
}

/** The plan names so many of the keys that are held back, each with its reason. */
const mostTold = 10

type Held = { readonly root: Place; readonly gap: Gap; readonly isOwn: boolean }

function tellOf(
  access: EnvironmentAccess,
  trail: Trail,
  { root, gap, isOwn }: Held,
  reaches: (environmentId: string) => boolean,
): string {
  if (!gap.way.every(({ environmentId }) => reaches(environmentId))) {
    return `${root.key}: ${gap.through} leads to a reference that cannot be resolved. ${whereToLook}`
  }
  const stop = trail.findStop(gap)
  const [place] = isOwn ? [root.key] : namePlaces(access, [gap.at])
  const way = isOwn ? `${root.key}: refers` : `${root.key}: leads to ${place}, which refers`
  const remedy = `To fix it, someone who can read it must delete and re-create the value of ${place}, or an admin must widen the scope of its author.`
  if (stop?.every(({ environmentId }) => reaches(environmentId))) {
    if (stop.length === 1) return `${way} to ${gap.name}, which the author of ${place} cannot read. ${remedy}`
    const [end] = namePlaces(access, stop.slice(-1))
    return `${way} to ${gap.name}, which leads to ${end}, which the author of ${place} cannot read. ${remedy}`
  }
  if (stop && !namesEnvironment(gap)) {
    return `${way} to ${gap.name}, which leads to a value that the author of ${place} cannot read. ${remedy}`
  }
  if (!namesEnvironment(gap)) return `${way} to ${gap.name}, which cannot be resolved.`
  // The same for a place that is not there and one that is out of reach: names must not be probeable.
  return `${way} to ${gap.name}, which cannot be resolved: it may not exist, or the author of ${place} cannot read it. ${remedy}`
}

const whereToLook = 'Open the plan of this sync: it names the place to people who can read it.'
const namesEnvironment = ({ name }: Gap) => name.includes('.')

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

/** Compares values without revealing them: keyed, and bound to the name. */
export function macOf(macKey: KeyObject, name: string, value: string): string {
  return createHmac('sha256', macKey)
    .update(lengthPrefixed([name, value]))
    .digest('base64url')
}

/** The same operation of the same run always has the same id, so that vendors can ignore a repetition. */
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
