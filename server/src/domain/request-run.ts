import type { Slot, SlotPool } from '../slot/pool.ts'
import type { Member } from '../store/workspace/member.ts'
import type { WorkspaceSnapshot } from './cache/workspace-snapshot.ts'

/** The snapshot and the membership that access was granted by. */
export type Granted = { readonly snapshot: WorkspaceSnapshot; readonly member: Member }

/** One attempt at a request, from authorisation to response. A request that has to wait for a slot starts a new run. */
export type Run = {
  /** The rights granted so far. They are checked again after every wait. */
  readonly granted: Granted[]
  readonly slots: Map<SlotPool, Slot>
  readonly startedOver: number
  /** True once a transaction has committed: repeating the work would then apply it twice. */
  hasCommitted: boolean
}

export const newRun = (startedOver = 0): Run => ({ granted: [], slots: new Map(), startedOver, hasCommitted: false })
