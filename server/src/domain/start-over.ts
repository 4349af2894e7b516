import { Failure } from '../failure.ts'
import type { SlotPool } from '../slot-pool.ts'

/** Ends a run that has to wait for a slot, or whose caller's rights have changed. It never reaches a client. */
export class StartOver extends Error {
  readonly pool: SlotPool | undefined

  constructor(pool?: SlotPool) {
    super('the work begins anew')
    this.pool = pool
  }

  giveUp(): Failure {
    return this.pool
      ? new Failure('overloaded')
      : new Failure('forbidden', 'Your rights have just been changed: try again.')
  }
}
