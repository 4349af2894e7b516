/** Every case, in the order in which they run. */
import type { Case } from './case.ts'
import { clock } from './clock.ts'
import { disk } from './disk.ts'
import { flip } from './flip.ts'
import { fuzz } from './fuzz.ts'
import { kill } from './kill.ts'
import { limiter } from './limiter.ts'
import { migration } from './migration.ts'
import { outage } from './outage.ts'
import { raw } from './raw.ts'
import { rotation } from './rotation.ts'
import { soak } from './soak.ts'
import { sync } from './sync.ts'
import { term } from './term.ts'

export const cases: readonly Case[] = [
  fuzz,
  raw,
  kill,
  term,
  outage,
  disk,
  flip,
  sync,
  clock,
  migration,
  rotation,
  limiter,
  soak,
]
