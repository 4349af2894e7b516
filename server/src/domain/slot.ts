/**
 * Slots for expensive work, shared fairly between clients. A request that has to wait for a large-read or
 * large-write slot releases everything it holds, then authenticates, authorises and reads again once it has the slot.
 */
import { clientNetwork, clientSite } from '../address-range.ts'
import { Failure } from '../failure.ts'
import type { LongWork, Work } from '../long-work.ts'
import type { Parties } from '../slot/fair-queue.ts'
import type { Slot, SlotPool } from '../slot/pool.ts'
import { confirmOngoing, confirmRights } from './access/confirm.ts'
import { grantOf } from './actor.ts'
import type { Context } from './context.ts'
import { newRun, type Run } from './request-run.ts'
import { StartOver } from './start-over.ts'

/** A person with all of their credentials, an identity, or the network of somebody unknown. */
const clientOf = ({ actor, request }: Context): string => actor.userId || actor.id || clientNetwork(request.ip)

/** Requests without a credential: the many networks of one site share a place. */
const strangerParties = ({ request: { ip } }: Context): Parties => [clientSite(ip), clientNetwork(ip)]

/** Fair between workspaces first, then between the clients of each workspace. */
function workspaceParties(ctx: Context): Parties {
  const workspaceId = ctx.run.granted.at(-1)?.snapshot.workspace.id ?? grantOf(ctx.actor.credential)?.workspaceId
  return [workspaceId ?? '', clientOf(ctx)]
}

/** Splits the capacity evenly between callers with and without a credential, then fairly between clients. */
const passwordParties = (ctx: Context): Parties =>
  ctx.actor.credential.type === 'none' ? ['public', ...strangerParties(ctx)] : ['credential', clientOf(ctx)]

/**
 * Call before loading or writing a lot; repeated calls are free. Takes a free slot for the rest of this run, or throws
 * `StartOver` to begin a new run with one. Inside a transaction it always starts over, so that the slot comes before
 * the locks: otherwise many large writes could queue for the locks, ahead of every small one.
 */
export function acquireLargeSlot(ctx: Context): void {
  const isWrite = 'transaction' in ctx
  const pool = isWrite ? ctx.slots.largeWrite : ctx.slots.largeRead
  if (ctx.run.slots.has(pool)) return
  const slot = isWrite ? undefined : pool.tryAcquire(workspaceParties(ctx))
  if (!slot) throw new StartOver(pool)
  ctx.run.slots.set(pool, slot)
}

export function releaseSlot({ run }: Pick<Context, 'run'>, pool: SlotPool): void {
  run.slots.get(pool)?.release()
  run.slots.delete(pool)
}

export function releaseSlots({ run }: Pick<Context, 'run'>): void {
  for (const pool of run.slots.keys()) releaseSlot({ run }, pool)
}

const maxStartedOver = 8

/** Waits for the slot that the previous run lacked. The new run must authenticate and authorise again. */
export async function nextRun(ctx: Context, reason: StartOver): Promise<Run> {
  releaseSlots(ctx)
  const { run } = ctx
  if (run.hasCommitted || run.startedOver === maxStartedOver) throw reason.giveUp()
  const next = newRun(run.startedOver + 1)
  const { pool } = reason
  if (pool) next.slots.set(pool, await pool.acquire(workspaceParties(ctx)))
  return next
}

/** For background jobs, which have no credential to present again: `work` must check its own rights on every run. */
export async function runInBackground<Result>(ctx: Context, work: (ctx: Context) => Promise<Result>): Promise<Result> {
  let { run } = ctx
  for (;;) {
    const current = { ...ctx, run }
    try {
      return await work(current)
    } catch (error) {
      if (!(error instanceof StartOver)) throw error
      run = await nextRun(current, error)
    } finally {
      // Those of the run that has ended: the next one keeps the slot that it waited for.
      releaseSlots(current)
    }
  }
}

/** For work that cannot start over, as its attempt is already counted: waits in place, then re-checks the rights. */
async function inSlot<Result>(
  ctx: Context,
  acquire: () => Promise<Slot>,
  work: (slot: Slot) => Promise<Result>,
): Promise<Result> {
  const slot = await acquire()
  try {
    await confirmRights(ctx)
    return await work(slot)
  } finally {
    slot.release()
  }
}

export const inPasswordSlot = <Result>(ctx: Context, work: (slot: Slot) => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.password.acquire(passwordParties(ctx)), work)

export const inSharePasswordSlot = <Result>(ctx: Context, work: () => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.sharePassword.acquire(strangerParties(ctx)), work)

export const inTokenLookUpSlot = <Result>(ctx: Context, work: () => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.tokenLookUp.acquire(strangerParties(ctx)), work)

export const inLoginSlot = <Result>(ctx: Context, email: string, work: () => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.login(email, strangerParties(ctx)), work)

/** For one portion of reading an audit trail. Never wait for a reader in `work`. */
export async function inAuditSlot<Result>(ctx: Context, work: (work: Work) => Promise<Result>): Promise<Result> {
  const slot = await ctx.slots.auditRead.acquire(workspaceParties(ctx))
  try {
    await confirmOngoing(ctx)
    return await work(await ctx.longWork.start())
  } finally {
    slot.release()
  }
}

/** For a read of a whole audit trail: between two portions, its slot goes to whoever waits for one. */
export async function inAuditSlots<Result>(
  ctx: Context,
  work: (longWork: LongWork) => Promise<Result>,
): Promise<Result> {
  const acquire = async () => {
    const slot = await ctx.slots.auditRead.acquire(workspaceParties(ctx))
    await confirmOngoing(ctx)?.catch((error: unknown) => {
      slot.release()
      throw error
    })
    return slot
  }
  let slot = await acquire()
  const start = async (): Promise<Work> => {
    const portions = await ctx.longWork.start()
    const giveWay = () => {
      const turn = portions.giveWay()
      if (!turn) return undefined
      slot.release()
      return turn.then(async () => {
        if (ctx.request.hasHungUp()) throw new Failure('unavailable')
        slot = await acquire()
        // Otherwise, while others wait for the slot too, each portion would be over after one step.
        await portions.renew()
      })
    }
    return { ...portions, giveWay }
  }
  try {
    return await work({ ...ctx.longWork, start })
  } finally {
    slot.release()
  }
}
