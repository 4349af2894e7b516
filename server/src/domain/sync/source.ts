/** What a sync reads and where it writes: the secrets of its environment, and a connection to its target. */
import { createHmac, type KeyObject } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { Failure, invalid } from '../../failure.ts'
import type { Connection, Provider, Values } from '../../providers/provider.ts'
import { createVendorHttp } from '../../providers/vendor-http.ts'
import { type Access, type EnvironmentAccess, reachesEnvironments } from '../access/access.ts'
import { outboundFor } from '../access/outbound-reach.ts'
import type { Context, Services } from '../context.ts'
import { namePlaces } from '../secret/answer.ts'
import { createTrail, isWithin, type Trail } from '../secret/delegated-references.ts'
import { loadProject, resolveRows } from '../secret/read.ts'
import type { Place } from '../secret/reference/graph.ts'
import type { Gap } from '../secret/reference/resolution.ts'
import { releaseSlots } from '../slot.ts'
import { chooser } from './mapping.ts'

/** Loaded with the first sync: most that is in it is never needed, and a start should not wait for it. */
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
  readonly refusal: Refusal | undefined
}

/**
 * What is kept is read by all who may see the sync. They reach its environment, but not always those that references lead to:
 * names and values there are told only to those who ask and reach them.
 */
export type Refusal = { readonly kept: string; tellTo(asker: Access): string }

/** A value of one's own is never pushed: the target would take it for everybody's. */
const nobody = ''

/** Only what the mapping chooses: what is never pushed can keep nothing back. */
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

/** As `readSource`, but a 409 where it may not be pushed. */
export async function requireSource(
  ctx: Context,
  access: EnvironmentAccess,
  mapping: Values,
  asker: Access,
): Promise<Source> {
  const source = await readSource(ctx, access, mapping)
  // The vendor is asked next, which may take long: nobody is to wait for its answer.
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
    kept: `${tellOf(access, trail, worst, (id) => id === access.environment.id)}${countMore(1, ': look at its plan.')}`,
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
    return `${root.key}: ${gap.through} leads on to a reference that cannot be resolved. ${whereToLook}`
  }
  const stop = trail.findStop(gap)
  const [place] = isOwn ? [root.key] : namePlaces(access, [gap.at])
  const way = isOwn ? `${root.key}: refers` : `${root.key}: leads to ${place}, which refers`
  const remedy = `To fix it, somebody who can read it must delete the value of ${place} and write it again, or an admin must widen the scope of whoever wrote it.`
  if (stop?.every(({ environmentId }) => reaches(environmentId))) {
    if (stop.length === 1) return `${way} to ${gap.name}, and whoever wrote that may not read it. ${remedy}`
    const [end] = namePlaces(access, stop.slice(-1))
    return `${way} to ${gap.name}, which leads on to ${end}, and whoever wrote ${place} may not read that. ${remedy}`
  }
  if (stop && !namesEnvironment(gap)) {
    return `${way} to ${gap.name}, which leads on to where whoever wrote ${place} may not read. ${remedy}`
  }
  if (!namesEnvironment(gap)) return `${way} to ${gap.name}, which cannot be resolved.`
  // The same for a place that is not there and one that is out of reach: names must not be probeable.
  return `${way} to ${gap.name}, which cannot be resolved; perhaps whoever wrote that may not read it. ${remedy}`
}

const whereToLook = 'Ask for the plan of this sync: it names the place to those who may read there.'
const namesEnvironment = ({ name }: Gap) => name.includes('.')

type Entered = { readonly credential: Values; readonly target: Values; readonly options: Values }

/** Of a step of the wizard, or a plan: as many as the longest lists of the vendors need. */
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
