import { Failure } from '../../failure.ts'
import type { Values } from '../../providers/provider.ts'
import { type Access, type EnvironmentAccess, reachesEnvironments } from '../access/access.ts'
import type { Context } from '../context.ts'
import { loadProject } from '../secret/load.ts'
import { createDelegatedReferences, type DelegatedReferences, isWithin } from '../secret/reference/delegated.ts'
import { namePlaces, resolveRows } from '../secret/reference/follow.ts'
import type { Place } from '../secret/reference/graph.ts'
import type { Gap } from '../secret/reference/resolution.ts'
import { releaseSlots } from '../slot.ts'
import { chooser } from './mapping.ts'

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
  const trail = createDelegatedReferences(ctx, access)
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

function findRefusal(
  access: EnvironmentAccess,
  roots: readonly Place[],
  trail: DelegatedReferences,
): Refusal | undefined {
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
  trail: DelegatedReferences,
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
