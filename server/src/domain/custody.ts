/** Moves the master key to another custody while the service runs, and says where it is. */
import { masterWrapKey } from '../crypto/keyring.ts'
import { Failure } from '../failure.ts'
import type { Custody } from '../master-key/custody.ts'
import { findCustody, removeHandovers, type StoredCustody } from '../store/key/custody.ts'
import { systemChain } from './audit/event.ts'
import { record } from './audit/record.ts'
import type { Context } from './context.ts'
import { announce, inTransaction } from './transaction.ts'

type NewMasterKey = {
  /** Wiped after the move. */
  readonly key: Uint8Array
  readonly custody: Custody
  readonly wrapped: string | undefined
}

/**
 * One transaction: a kill leaves the store under either key, never between. Every node reads the new key within a
 * second, and needs the new settings only at its next start.
 */
export async function moveMasterKey(ctx: Context, { key, custody, wrapped }: NewMasterKey): Promise<void> {
  const master = masterWrapKey(key)
  key.fill(0)
  await inTransaction(ctx, systemChain, async (ctx) => {
    const { current } = await findCustody(ctx.transaction.db)
    await ctx.keys.handOver(ctx.transaction.db, { key: master, custody, wrapped }, ctx.now())
    announce(ctx, 'keyring', 'master')
    record(ctx, {
      chain: systemChain,
      action: 'ROTATE',
      entity: { type: 'master-key', id: 'master', name: custody.kind },
      before: { custody: current?.kind ?? 'first' },
      after: { custody: custody.kind },
    })
  })
  await ctx.keys.reload()
}

/** After this long every node has read the change log, and holds the new key. */
const defaultSettleMs = 2_000

const movedAgain = 'The master key has just moved again: do what that move has asked for, then finish both.'

/** Removes what lets holders of former keys follow. Returns how many former keys ended. */
export async function finishMove(ctx: Context, settleMs = defaultSettleMs): Promise<number> {
  const { handedOverAt = 0, former } = await findCustody(ctx.engine)
  await ctx.sleep(Math.max(0, Math.min(settleMs, handedOverAt + settleMs - ctx.now())))
  return inTransaction(ctx, systemChain, async (ctx) => {
    // Nodes may not have read the key of a move that came during the wait, nor its settings.
    if ((await findCustody(ctx.transaction.db)).former.length > former.length) throw new Failure('conflict', movedAgain)
    const removed = await removeHandovers(ctx.transaction.db)
    const entity = { type: 'master-key', id: 'master', name: 'former' }
    if (removed > 0) record(ctx, { chain: systemChain, action: 'DELETE', entity })
    return removed
  })
}

/** Whether the store is under this key. Wipes it. */
export function isMasterKey({ keys }: Pick<Context, 'keys'>, key: Uint8Array): boolean {
  const master = masterWrapKey(key)
  key.fill(0)
  return keys.isMaster(master)
}

export const describeCustody = ({ engine }: Pick<Context, 'engine'>): Promise<StoredCustody> => findCustody(engine)
