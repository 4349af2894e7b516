/** Puts a file into a target, as a process that a test can kill: `node put-backup.ts TARGET NAME FILE`. */
import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../server/src/config.ts'
import { openTarget } from '../server/src/domain/backup/target/open.ts'
import { createOutbound } from '../server/src/outbound.ts'
import { parseAllowList } from '../server/src/outbound-allow.ts'

const [target = '', name = '', file = ''] = process.argv.slice(2)
const outbound = createOutbound({ allow: parseAllowList('') })
const config = readConfig(process.env)
const ctx = { config, outbound, now: Date.now, sleep: (ms: number) => sleep(ms) }
await (await openTarget(ctx, target)).put(name, file)
