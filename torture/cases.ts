/** Every case in running order: cases with no natural end come last and get the remaining time. */
import type { Case } from './case.ts'
import { fuzz } from './client/fuzz.ts'
import { limiter } from './client/limiter.ts'
import { raw } from './client/raw.ts'
import { stall } from './client/stall.ts'
import { failover } from './database/failover.ts'
import { outage } from './database/outage.ts'
import { pgbouncer } from './database/pgbouncer.ts'
import { backupDisk } from './machine/backup-disk.ts'
import { clock } from './machine/clock.ts'
import { disk } from './machine/disk.ts'
import { flip } from './machine/flip.ts'
import { sync } from './machine/sync.ts'
import { kill } from './process/kill.ts'
import { migration } from './process/migration.ts'
import { nodes } from './process/nodes.ts'
import { rotation } from './process/rotation.ts'
import { soak } from './process/soak.ts'
import { term } from './process/term.ts'
import { upgrade } from './process/upgrade.ts'

export const cases: readonly Case[] = [
  raw,
  term,
  outage,
  failover,
  pgbouncer,
  nodes,
  disk,
  backupDisk,
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
