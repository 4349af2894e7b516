import { Failure } from '../failure.ts'
import type { SlotPool } from '../slot/pool.ts'

/** Ends a run that needs a slot, or whose caller's rights have changed. A new run follows; clients never see it. */
export class StartOver extends Error {
  readonly pool: SlotPool | undefined

  constructor(pool?: SlotPool) {
    super('the run starts over')
    this.pool = pool
  }

  giveUp(): Failure {
    return this.pool
      ? new Failure('overloaded')
      : new Failure('forbidden', 'Your permissions have just changed: try again.')
  }
}
