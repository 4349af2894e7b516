/**
 * The end of an upgrade. Some rules would be broken by nodes of an earlier version, which know nothing of them. Such a rule
 * waits until the operator says that no such node runs any more: `upgrade finish`. SQLite has one node, so that its start
 * finishes the upgrade.
 *
 * To add a rule: append its name to `store/upgrade-switch.ts`, describe and prepare it here, and ask `keys.isFinished`.
 */
import { Failure } from '../../failure.ts'
import { findRecordedLevel, levelEntity } from '../../store/audit/level.ts'
import type { NodeRow } from '../../store/node.ts'
import { newestLevel, type UpgradeSwitch, upgradeSwitches } from '../../store/upgrade-switch.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, Services } from '../context.ts'
import { announce, inTransaction } from '../transaction.ts'
import { listLiveNodes } from './node.ts'
import { adoptAllRows } from './row-set.ts'

type Rule = {
  /** A clause for the operator. */
  readonly about: string
  /** Makes the store ready for the rule. May be interrupted, and is repeated then. */
  prepare(ctx: Context): Promise<void>
}

const rules: Record<UpgradeSwitch, Rule> = {
  'row-set': {
    about:
      'members, service accounts, policies, tokens and identities that are removed or put back in the database are noticed',
    prepare: adoptAllRows,
  },
}

type UpgradeStatus = {
  readonly level: number
  readonly newestLevel: number
  /** What `upgrade finish` switches on, in order. */
  readonly waiting: readonly { readonly name: UpgradeSwitch; readonly about: string }[]
  /** Empty on SQLite, which has one node. */
  readonly nodes: readonly NodeRow[]
}

export async function readUpgradeStatus(services: Pick<Services, 'keys' | 'store' | 'now'>): Promise<UpgradeStatus> {
  const { level } = services.keys
  const waiting = upgradeSwitches.slice(level).map((name) => ({ name, about: rules[name].about }))
  return { level, newestLevel, waiting, nodes: await listLiveNodes(services) }
}

/** Live nodes of versions that would break a waiting rule. */
export const findOutdated = ({ nodes }: UpgradeStatus): NodeRow[] => nodes.filter(({ level }) => level < newestLevel)

/**
 * Key rows of before the upgrade open the store as long as no root was rotated since. They must not switch rules off, nor
 * let the next end of the upgrade take changed rows for right: the audit trail says that it was finished. Returns what is
 * wrong, if anything.
 */
export async function findUndoneEnd({ engine, keys }: Pick<Services, 'engine' | 'keys'>): Promise<string | undefined> {
  if (keys.level >= newestLevel) return undefined
  const recorded = await findRecordedLevel(engine, systemChain)
  if (recorded <= keys.level) return undefined
  return `The upgrade was finished to level ${recorded}, and the register of keys says ${keys.level}: older keys were put back in the database.`
}

/** Call at the start, and before the upgrade is finished. */
export async function requireKeptEnd(services: Pick<Services, 'engine' | 'keys'>): Promise<void> {
  const undone = await findUndoneEnd(services)
  if (undone !== undefined) throw new Failure('keysChanged', undone)
}

/** Returns what was switched on. */
export async function finishUpgrade(ctx: Context): Promise<UpgradeStatus['waiting']> {
  await ctx.keys.reload()
  await requireKeptEnd(ctx)
  const status = await readUpgradeStatus(ctx)
  const { level, waiting } = status
  if (waiting.length === 0) return []
  const [outdated] = findOutdated(status)
  if (outdated) {
    throw new Failure(
      'conflict',
      `The node ${JSON.stringify(outdated.name)} still runs version ${outdated.version}: upgrade it first, or stop it and wait two minutes.`,
    )
  }
  for (const { name } of waiting) await rules[name].prepare(ctx)
  await inTransaction(ctx, systemChain, async (ctx) => {
    await ctx.keys.raiseLevel(ctx.transaction.db, newestLevel)
    // Every node reads its keys again, and with them the level.
    announce(ctx, 'keyring', `level ${newestLevel}`)
    const entity = { ...levelEntity(newestLevel), name: waiting.map(({ name }) => name).join() }
    record(ctx, {
      ...{ chain: systemChain, action: 'UPDATE', entity, before: { level }, after: { level: newestLevel } },
    })
  })
  await ctx.keys.reload()
  return waiting
}
