/** Every case in running order: cases with no natural end come last and get the remaining time. */
import type { Case } from './case.ts'
import { clock } from './clock.ts'
import { disk } from './disk.ts'
import { failover } from './failover.ts'
import { flip } from './flip.ts'
import { fuzz } from './fuzz.ts'
import { kill } from './kill.ts'
import { limiter } from './limiter.ts'
import { migration } from './migration.ts'
import { outage } from './outage.ts'
import { raw } from './raw.ts'
import { rotation } from './rotation.ts'
import { soak } from './soak.ts'
import { stall } from './stall.ts'
import { sync } from './sync.ts'
import { term } from './term.ts'
import { upgrade } from './upgrade.ts'

export const cases: readonly Case[] = [
  raw,
  term,
  outage,
  failover,
  disk,
  sync,
  clock,
  limiter,
  stall,
  rotation,
  migration,
  upgrade,
  flip,
  soak,
  kill,
  fuzz,
]
