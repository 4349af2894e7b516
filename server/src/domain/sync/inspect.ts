/** Computes what a run would do now. The review, `plan` and the run itself share this code. */
import type { KeyObject } from 'node:crypto'
import { guardOf, type Provider, type Remote, type RemoteItem } from '../../providers/provider.ts'
import type { LedgerEntry, OthersEntry } from '../../store/sync/ledger.ts'
import type { SealedSync, SyncSettings } from '../../store/sync/sync.ts'
import { type Access, reachesEnvironments } from '../access/access.ts'
import type { Context } from '../context.ts'
import { hourMs } from '../time.ts'
import { macOf } from './mac.ts'
import { type Mapped, mapSecrets } from './mapping.ts'
import { looksNeeded, type PlanInput, planSync, type Seen, type SyncPlan } from './plan.ts'
import type { Source } from './source.ts'

export type Inspection = {
  readonly mapped: Mapped
  /** MACs of the desired values, by name. */
  readonly desired: ReadonlyMap<string, string>
  readonly ledger: ReadonlyMap<string, LedgerEntry>
  readonly remote: ReadonlyMap<string, Seen> | undefined
  /** True if the person lets this sync overwrite existing entries. */
  readonly takesOver: boolean
  readonly plan: SyncPlan
}

type Intent = {
  readonly sync: Pick<SealedSync, 'id' | 'placeHash' | 'lastOkAt'>
  readonly settings: Pick<SyncSettings, 'mapping' | 'options' | 'target'>
  readonly macKey: KeyObject
  readonly ledger: readonly LedgerEntry[]
  readonly repairs: boolean
  /** Reads the target even if the ledger shows no need. */
  readonly looks: boolean
  /** Whether the readers of the plan may see the name of this other sync. */
  readonly mayName: (other: OthersEntry) => boolean
  /** Writes every entry again, even if its value is equal: a setting stored with each entry has changed. */
  readonly rewrites?: boolean
}

export async function inspectTarget(
  ctx: Context,
  provider: Provider,
  far: Remote,
  source: Pick<Source, 'secrets'>,
  intent: Intent,
): Promise<Inspection> {
  const { sync, settings, macKey, repairs } = intent
  const { mapping, options, target } = settings
  const fold = foldOf(provider)
  const guard = guardOf(provider, target)
  const asNamed = mapSecrets(provider, mapping, options, source.secrets, target)
  const mapped = provider.limits.foldsCase ? spellAsBefore(fold, asNamed, intent.ledger) : asNamed
  const desired = new Map([...mapped.desired].map(([name, value]) => [name, macOf(macKey, name, value)]))
  const entries = intent.rewrites ? intent.ledger.map((entry) => unsettled(entry, desired)) : intent.ledger
  const ledger = new Map(entries.map((entry) => [entry.name, entry]))
  const onExisting = onExistingOf(mapping.onExisting)
  const takesOver = onExisting === 'adopt'
  const fixed = {
    desired,
    ledger: entries,
    onExisting,
    takesBack: provider.takesBack && (takesOver || provider.takesBack(options)),
    isFirst: sync.lastOkAt === null,
    doubtfulBefore: ctx.now() - hourMs,
    guard,
    others: new Map<string, string>(),
    repairs: repairs || mapping.drift === 'repair',
  }
  const isBlind = provider.capabilities.read === 'nothing'
  const unseen = isBlind || !intent.looks ? planSync({ ...fixed, remote: undefined }) : undefined
  const needed = intent.looks || !unseen ? 'all' : looksNeeded(unseen, ledger, guard)
  if (unseen && (isBlind || (needed !== 'all' && needed.size === 0)))
    return { mapped, desired, ledger, remote: undefined, takesOver, plan: unseen }
  // Most targets hold the desired values, whose MACs are known: computing each again would cost more than comparing.
  const macAt = (name: string, value: string) =>
    (mapped.desired.get(name) === value && desired.get(name)) || macOf(macKey, name, value)
  const asked = needed === 'all' ? needed : withOthers(needed, ledger, provider.capabilities.findsPerCall)
  const found = asked === 'all' ? undefined : far.find?.([...asked].map((name) => knownItem(name, ledger)))
  const remote = await look(fold, macAt, new Set([...desired.keys(), ...ledger.keys()]), (wanted) =>
    found ? found : far.list(wanted),
  )
  const { listLagMs } = provider.capabilities
  if (!found && listLagMs !== undefined) {
    const late = entries.filter(({ name, mark, updatedAt }) => {
      return updatedAt >= ctx.now() - listLagMs && (!remote.has(name) || remote.get(name)?.mark !== mark)
    })
    for (const { name } of late) await lookAgain(name)
  }
  const missing = found ? [] : (far.findProblems?.(new Set(desired.keys())) ?? [])
  const written = await ctx.store.syncLedger.listOthers(sync.id, sync.placeHash ?? '')
  const theirs = new Map(written.map((entry) => [fold(entry.name), entry]))
  const others = new Map<string, string>()
  for (const name of desired.keys()) {
    const other = theirs.get(fold(name))
    if (other) others.set(name, intent.mayName(other) ? `the sync "${other.syncName}"` : 'another sync')
  }
  // A list is compared as a whole, even if fewer entries were needed.
  const seen = { remote, others, ...(found && asked !== 'all' && { lookedFor: asked }) }
  const problems = [...mapped.problems, ...missing]
  return { mapped: { ...mapped, problems }, desired, ledger, remote, takesOver, plan: planSync({ ...fixed, ...seen }) }

  /** The list is older than our last write, so it does not tell whether somebody has changed or deleted the entry. */
  async function lookAgain(name: string): Promise<void> {
    const { find } = far
    if (!find) return
    const items = await look(
      fold,
      macAt,
      new Set([name]),
      (wanted) => find([knownItem(name, ledger)]) ?? far.list(wanted),
    )
    const item = items.get(name)
    if (item) remote.set(name, item)
    else remote.delete(name)
  }
}

/** For one caller: the syncs of this workspace whose environment they reach. */
export const namedTo = (access: Access) => (other: OthersEntry) =>
  other.workspaceId === access.snapshot.workspace.id && reachesEnvironments(access, [other.environmentId ?? ''])

/** For everyone who may see the sync: only syncs that push from the same environment. */
export const namedToAll =
  ({ environmentId }: Pick<SealedSync, 'environmentId'>) =>
  (other: OthersEntry) =>
    other.environmentId !== null && other.environmentId === environmentId

/** Adds names of the ledger up to the number that one call can look up. */
function withOthers(needed: ReadonlySet<string>, ledger: ReadonlyMap<string, LedgerEntry>, perCall = 1) {
  const others = ledger.keys().filter((name) => !needed.has(name))
  return new Set([...needed, ...others.take(Math.max(0, perCall - needed.size))])
}

function knownItem(name: string, ledger: ReadonlyMap<string, LedgerEntry>) {
  const id = ledger.get(name)?.remoteId ?? null
  return id === null ? { name } : { name, id }
}

/** Marks an entry as pending, so that it is written again. Entries that are no longer wanted stay as they are. */
export const unsettled = (entry: LedgerEntry, wanted: { has(name: string): boolean }): LedgerEntry =>
  entry.status === 'synced' && wanted.has(entry.name) ? { ...entry, status: 'pending' } : entry

type Fold = (name: string) => string

/** A vendor that ignores case treats two spellings as one name. */
const foldOf =
  ({ limits }: Provider): Fold =>
  (name) =>
    limits.foldsCase ? name.toLowerCase() : name

/**
 * A written name keeps its spelling. Otherwise the plan would create the new spelling and then delete the old one,
 * which are the same entry at the vendor.
 */
function spellAsBefore(fold: Fold, mapped: Mapped, ledger: readonly LedgerEntry[]): Mapped {
  const spellings = new Map(ledger.map(({ name }) => [fold(name), name]))
  const respell = <Value>(byName: ReadonlyMap<string, Value>) =>
    new Map([...byName].map(([name, value]) => [spellings.get(fold(name)) ?? name, value]))
  return { ...mapped, desired: respell(mapped.desired), sources: respell(mapped.sources) }
}

async function look(
  fold: Fold,
  macAt: (name: string, value: string) => string,
  wanted: ReadonlySet<string>,
  ask: (wanted: ReadonlySet<string>) => AsyncIterable<RemoteItem>,
): Promise<Map<string, Seen>> {
  const spellings = new Map([...wanted].map((name) => [fold(name), name]))
  const remote = new Map<string, Seen>()
  for await (const { value, ...item } of ask(wanted)) {
    // The name as we spell it, however the vendor does.
    const name = spellings.get(fold(item.name)) ?? item.name
    remote.set(name, { ...item, name, ...(value !== undefined && { valueMac: macAt(name, value) }) })
  }
  return remote
}

const onExistingOf = (answer: string | undefined): PlanInput['onExisting'] =>
  answer === 'adopt' || answer === 'skip' ? answer : 'fail'
