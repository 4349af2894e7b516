/**
 * Plans a run from the desired entries, the ledger (what this sync has written) and the entries at the target. Pure. A
 * plan updates or deletes only names in the ledger, unless it adopts: everything else belongs to someone else.
 */
import type { Guard, RemoteItem } from '../../providers/provider.ts'
import type { LedgerEntry } from '../../store/sync/ledger.ts'

/** An item at the target, with the MAC of its value if the vendor shows it. */
export type Seen = Pick<RemoteItem, 'name' | 'id' | 'mark' | 'isOurs'> & { readonly valueMac?: string }

export type PlanInput = {
  /** MACs of the desired values, by name. */
  readonly desired: ReadonlyMap<string, string>
  readonly ledger: readonly LedgerEntry[]
  /** Undefined if the target was not read, or cannot be. */
  readonly remote: ReadonlyMap<string, Seen> | undefined
  /** The names that were looked up; undefined if the read returned the whole target. */
  readonly lookedFor?: ReadonlySet<string>
  readonly guard: Guard
  readonly onExisting: 'fail' | 'adopt' | 'skip'
  /** Restores entries that someone else has changed or removed; otherwise they are only reported. */
  readonly repairs: boolean
  /** An entry begun before this time and never confirmed may belong to someone else by now. */
  readonly doubtfulBefore: number
  /** True until a run has succeeded: nothing is deleted before everything has arrived once. */
  readonly isFirst: boolean
  /** Whether an edited entry without our mark may be overwritten; undefined if a lost mark means it was replaced. */
  readonly takesBack: boolean | undefined
  /** Names at this target that another sync has written, with a description of that sync. */
  readonly others: ReadonlyMap<string, string>
}

export type SyncPlan = {
  readonly create: readonly string[]
  readonly update: readonly string[]
  /** Foreign entries that the person lets this sync take over. They are updated too. */
  readonly adopt: readonly string[]
  readonly delete: readonly string[]
  readonly unchanged: readonly string[]
  readonly conflict: readonly { readonly name: string; readonly why: string }[]
  /** Changed or removed at the target by someone else, and left alone. */
  readonly drifted: readonly string[]
  /** No longer ours: removed from the ledger, untouched at the target. */
  readonly release: readonly string[]
  /** Entries of this sync that someone else has deleted or changed, whatever the plan does about them. */
  readonly found: ReadonlyMap<string, Found>
}

export type Found = 'deleted' | 'changed'

const foreign = 'already exists and was not created by this sync.'
export const foundWords: Readonly<Record<Found, string>> = {
  deleted: 'was deleted at the target by someone else.',
  changed: 'was changed at the target by someone else.',
}
const takenOver = 'no longer carries the mark of this sync: someone has replaced it.'

export function planSync(input: PlanInput): SyncPlan {
  const { desired, ledger, remote, lookedFor, guard, others, onExisting } = input
  const { repairs, isFirst, takesBack, doubtfulBefore } = input
  const plan = {
    create: [] as string[],
    update: [] as string[],
    adopt: [] as string[],
    delete: [] as string[],
    unchanged: [] as string[],
    conflict: [] as { name: string; why: string }[],
    drifted: [] as string[],
    release: [] as string[],
    found: new Map<string, Found>(),
  }
  const known = new Map(ledger.map((entry) => [entry.name, entry]))

  for (const [name, valueMac] of desired) {
    const entry = known.get(name)
    const seen = remote?.get(name)
    const writer = others.get(name)
    if (entry) planKnown(entry, valueMac, seen)
    else if (writer !== undefined) plan.conflict.push({ name, why: `is already written by ${writer}.` })
    else if (!seen) plan.create.push(name)
    else if (onExisting === 'adopt' || seen.isOurs === true) plan.adopt.push(name)
    else if (onExisting === 'skip') plan.unchanged.push(name)
    else plan.conflict.push({ name, why: foreign })
  }

  function planKnown(entry: LedgerEntry, valueMac: string, seen: Seen | undefined): void {
    const { name, status } = entry
    const isChanged = entry.valueMac !== valueMac || status !== 'synced'
    if (!remote || lookedFor?.has(name) === false) {
      if (status === 'new') plan.create.push(name)
      else (isChanged ? plan.update : plan.unchanged).push(name)
    } else if (!seen) {
      // A create that was begun and never arrived is nobody's doing.
      if (status !== 'new') plan.found.set(name, 'deleted')
      if (isChanged || repairs) plan.create.push(name)
      else plan.drifted.push(name)
    } else if (isForeign(entry, seen)) {
      if (mayAdopt(name)) plan.adopt.push(name)
      else plan.conflict.push({ name, why: status === 'new' || entry.origin === 'adopted' ? foreign : takenOver })
    } else {
      const hasLostMark = takesBack !== undefined && isEdited(entry, seen)
      const isLeft = isNotAsLeft(entry, seen, guard)
      const isOther = hasLostMark || isLeft || (status === 'synced' && hasDrifted(entry, seen))
      if (isOther) plan.found.set(name, 'changed')
      if (hasLostMark && takesBack === false) plan.drifted.push(name)
      else if (isChanged) (isLeft && !repairs && !mayAdopt(name) ? plan.drifted : plan.update).push(name)
      else if (!hasDrifted(entry, seen)) plan.unchanged.push(name)
      else (repairs ? plan.update : plan.drifted).push(name)
    }
  }

  function isForeign(entry: LedgerEntry, seen: Seen): boolean {
    if (entry.status === 'new') return seen.isOurs === false || isSomebodyElses(entry, seen, doubtfulBefore)
    if (takesBack !== undefined) return false
    // Some vendors store our mark only on creation, so an adopted entry may never have had it.
    return seen.isOurs === false && !(entry.origin === 'adopted' && mayAdopt(entry.name))
  }

  /** True if the entry lacks our mark and our value. An entry set back to our value counts as untouched. */
  function isEdited(entry: LedgerEntry, seen: Seen): boolean {
    // While the outcome of an update is unknown, the value before it was ours too.
    const isBegun = entry.status === 'pending' && entry.updatedAt >= doubtfulBefore
    return seen.isOurs === false && seen.valueMac !== entry.valueMac && !isBegun
  }

  function isReplaced(entry: LedgerEntry, seen: Seen): boolean {
    return takesBack === undefined ? seen.isOurs === false : isEdited(entry, seen)
  }

  function mayAdopt(name: string): boolean {
    return onExisting === 'adopt' && !others.has(name)
  }

  for (const entry of ledger) {
    if (desired.has(entry.name)) continue
    const isLookedFor = remote !== undefined && lookedFor?.has(entry.name) !== false
    const seen = isLookedFor ? remote.get(entry.name) : undefined
    const isGone = isLookedFor && !seen
    if (isGone && entry.status !== 'new') plan.found.set(entry.name, 'deleted')
    if (isGone || entry.origin === 'adopted') plan.release.push(entry.name)
    else if (seen && (isReplaced(entry, seen) || isSomebodyElses(entry, seen, doubtfulBefore))) {
      plan.release.push(entry.name)
      if (entry.status !== 'new') plan.found.set(entry.name, 'changed')
    } else if (isFirst) plan.unchanged.push(entry.name)
    else plan.delete.push(entry.name)
  }
  return plan
}

/** True if someone else has replaced the entry: it does not hold the value that we wrote, or were about to write. */
function isSomebodyElses(entry: LedgerEntry, seen: Seen, doubtfulBefore: number): boolean {
  if (entry.status === 'synced') return hasDrifted(entry, seen)
  if (entry.status === 'pending' || seen.isOurs === true) return false
  return seen.valueMac === undefined ? entry.updatedAt < doubtfulBefore : seen.valueMac !== entry.valueMac
}

function hasDrifted(entry: LedgerEntry, seen: Seen): boolean {
  if (seen.valueMac !== undefined) return seen.valueMac !== entry.valueMac
  return entry.mark !== null && seen.mark !== undefined && seen.mark !== entry.mark
}

/**
 * For vendors that cannot store our mark: true if the entry has changed since we wrote it, so that an update would
 * overwrite someone else's value. An entry with our mark may always be overwritten.
 */
function isNotAsLeft(entry: LedgerEntry, seen: Seen, guard: Guard): boolean {
  if (entry.status !== 'synced' || seen.isOurs !== undefined) return false
  if (guard === 'id') return entry.remoteId !== null && seen.id !== undefined && seen.id !== entry.remoteId
  return guard !== 'none' && hasDrifted(entry, seen)
}

/**
 * The entries that must be read before a plan made without reading is carried out. A new name may already exist, and an
 * entry to be deleted or updated may have been replaced. If there are only updates, reading their entries is enough.
 */
export function looksNeeded(
  plan: SyncPlan,
  ledger: ReadonlyMap<string, LedgerEntry>,
  guard: Guard,
): 'all' | Set<string> {
  if (plan.create.length + plan.delete.length > 0) return 'all'
  if (guard === 'none') return new Set()
  if (guard !== 'precondition') return new Set(plan.update)
  // The update of a killed run may have re-created the entry, under an id that the ledger does not know.
  return new Set(plan.update.filter((name) => ledger.get(name)?.status !== 'synced'))
}

/**
 * A mistake in a filter must not empty a target, so this many deletes need a person's confirmation. A name that is wanted
 * but left to somebody else, or left away as somebody else deleted it, does not count as kept.
 */
export function isMassDelete(plan: SyncPlan, ledger: ReadonlyMap<string, unknown>, allowed: number): boolean {
  const count = plan.delete.length
  if (count === 0 || count <= allowed) return false
  const { create, update, adopt, unchanged, drifted } = plan
  const isKept = (name: string) => ledger.has(name) && plan.found.get(name) !== 'deleted'
  const keepsAny = [create, update, adopt].some(({ length }) => length > 0) || [...unchanged, ...drifted].some(isKept)
  return !keepsAny || count > Math.max(10, Math.floor(ledger.size * 0.3))
}
