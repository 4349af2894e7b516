/** What a run would do now: the same look and the same plan for the review, for `plan` and for the run itself. */
import type { Provider, Remote } from '../providers/provider.ts'
import type { SealedSync, SyncSettings } from '../store/sync.ts'
import type { LedgerEntry } from '../store/sync-ledger.ts'
import type { Context } from './context.ts'
import { type Mapped, mapSecrets } from './sync-mapping.ts'
import { needsLook, type Plan, type PlanInput, planSync, type Seen } from './sync-plan.ts'
import { macOf, type Source } from './sync-source.ts'
import { hourMs } from './time.ts'

export type Outlook = {
  readonly mapped: Mapped
  /** MACs of what should be there. */
  readonly desired: ReadonlyMap<string, string>
  readonly ledger: ReadonlyMap<string, LedgerEntry>
  readonly remote: ReadonlyMap<string, Seen> | undefined
  readonly plan: Plan
}

export type Intent = {
  readonly sync: Pick<SealedSync, 'id' | 'placeHash' | 'lastOkAt'>
  readonly settings: Pick<SyncSettings, 'mapping' | 'options' | 'macKey'>
  readonly ledger: readonly LedgerEntry[]
  readonly repairs: boolean
  /** Looks at the target whatever the ledger says. */
  readonly looks: boolean
}

export async function lookAhead(
  ctx: Context,
  provider: Provider,
  far: Remote,
  source: Pick<Source, 'secrets'>,
  intent: Intent,
): Promise<Outlook> {
  const { sync, settings, repairs } = intent
  const { mapping, options, macKey } = settings
  const mapped = mapSecrets(provider, mapping, options, source.secrets)
  const desired = new Map([...mapped.desired].map(([name, value]) => [name, macOf(macKey, name, value)]))
  const ledger = new Map(intent.ledger.map((entry) => [entry.name, entry]))
  const fixed = {
    desired,
    ledger: intent.ledger,
    onExisting: onExistingOf(mapping.onExisting),
    isFirst: sync.lastOkAt === null,
    doubtfulBefore: ctx.now() - hourMs,
    others: new Set<string>(),
    repairs: repairs || mapping.drift === 'repair',
  }
  const unseen = planSync({ ...fixed, remote: undefined })
  const isBlind = provider.capabilities.read === 'nothing'
  if (isBlind || (!intent.looks && !needsLook(unseen)))
    return { mapped, desired, ledger, remote: undefined, plan: unseen }
  const remote = await look(provider, far, macKey, new Set([...desired.keys(), ...ledger.keys()]))
  const unknown = [...desired.keys()].filter((name) => remote.has(name) && !ledger.has(name))
  const others = new Set(await ctx.store.syncLedger.listOthers(sync.id, sync.placeHash ?? '', unknown))
  return { mapped, desired, ledger, remote, plan: planSync({ ...fixed, remote, others }) }
}

async function look(
  provider: Provider,
  far: Remote,
  macKey: string,
  wanted: ReadonlySet<string>,
): Promise<Map<string, Seen>> {
  const fold = (name: string) => (provider.limits.foldsCase ? name.toLowerCase() : name)
  const spellings = new Map([...wanted].map((name) => [fold(name), name]))
  const remote = new Map<string, Seen>()
  for await (const { value, ...item } of far.list(wanted)) {
    // To a vendor that does not tell case apart, it is the one that we mean, however it is spelt there.
    const name = spellings.get(fold(item.name)) ?? item.name
    remote.set(name, { ...item, name, ...(value !== undefined && { valueMac: macOf(macKey, name, value) }) })
  }
  return remote
}

const onExistingOf = (answer: string | undefined): PlanInput['onExisting'] =>
  answer === 'adopt' || answer === 'skip' ? answer : 'fail'
