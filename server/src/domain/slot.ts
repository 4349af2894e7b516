/**
 * Slots of this service: how many may do what is costly at a time, and who shares them. A request that has to wait holds
 * nothing meanwhile and begins anew with its slot: it authenticates, authorises and reads again.
 */
import { clientNetwork, clientSite } from '../address-range.ts'
import type { Parties } from '../fair-queue.ts'
import { createKeyedSlots, createSlotPool, type Slot, type SlotPool } from '../slot-pool.ts'
import { confirmRights } from './access/confirm.ts'
import { type Context, grantOf, newRun, type Run } from './context.ts'
import { StartOver } from './start-over.ts'

export type Slots = ReturnType<typeof createSlots>

export function createSlots() {
  return {
    /** Bounds the memory that large answers take. One workspace holds one of the two, and so does one person. */
    largeRead: createSlotPool({ running: 2, waiting: 32, runningPerParty: 1 }),
    /** Writers and recorded readers wait for the transactions before theirs: they meet one large transaction at most. */
    largeWrite: createSlotPool({ running: 1, waiting: 16 }),
    /** Two argon2 hashes take 92 MiB and two threads. */
    password: createSlotPool({ running: 2, waiting: 64 }),
    /** Guesses at shares leave connections of the store to others. */
    shareLookUp: createSlotPool({ running: 4, waiting: 512 }),
    /** Leaves half of the hashing to those who sign in. */
    sharePassword: createSlotPool({ running: 1, waiting: 128 }),
    /** One login of an email address after another: attempts are counted before their outcome is known. */
    login: createKeyedSlots({ running: 1, waiting: 64 }),
  } as const
}

/** A person with all of their credentials, an identity, or the network of somebody unknown. */
const clientOf = ({ actor, request }: Context): string => actor.userId || actor.id || clientNetwork(request.ip)

/** Requests without a credential: the many networks of one site share a place. */
const strangerParties = ({ request: { ip } }: Context): Parties => [clientSite(ip), clientNetwork(ip)]

/** Shared between workspaces, and in each between its clients. */
function workspaceParties(ctx: Context): Parties {
  const workspaceId = ctx.run.granted.at(-1)?.picture.workspace.id ?? grantOf(ctx.actor.credential)?.workspaceId
  return [workspaceId ?? '', clientOf(ctx)]
}

/** Shared between those with a credential and those without, so that each have half; and among these between clients. */
const passwordParties = (ctx: Context): Parties =>
  ctx.actor.credential.type === 'none' ? ['public', ...strangerParties(ctx)] : ['credential', clientOf(ctx)]

/**
 * Called before much is loaded or written, as often as convenient. Takes a free slot for the rest of this run; where none
 * is free the run ends here, and begins anew with a slot. A transaction always ends for it: large ones that queued up for
 * their locks first, and for their slots then, would be ahead of everybody who writes a little.
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

/** Waits for what the run lacked. The next run must authenticate and authorise again. */
export async function nextRun(ctx: Context, reason: StartOver): Promise<Run> {
  releaseSlots(ctx)
  const { run } = ctx
  if (run.hasCommitted || run.startedOver === maxStartedOver) throw reason.giveUp()
  const next = newRun(run.startedOver + 1)
  const { pool } = reason
  if (pool) next.slots.set(pool, await pool.acquire(workspaceParties(ctx)))
  return next
}

/** For work of the service itself, which has no credential to show again: `work` must find its rights by itself. */
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

/** Work that cannot begin anew, as attempts were counted already: waits where it is, then confirms the caller's rights. */
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

export const inShareLookUpSlot = <Result>(ctx: Context, work: () => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.shareLookUp.acquire(strangerParties(ctx)), work)

export const inLoginSlot = <Result>(ctx: Context, email: string, work: () => Promise<Result>): Promise<Result> =>
  inSlot(ctx, () => ctx.slots.login(email, strangerParties(ctx)), work)
