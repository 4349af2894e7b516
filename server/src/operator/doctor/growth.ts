/** How fast the audit trail grows: every read of values is an entry, so it is most of a store in use. */
import { statfs } from 'node:fs/promises'
import { systemChain } from '../../domain/audit/event.ts'
import { narrowToPeriod } from '../../domain/audit/period.ts'
import type { Services } from '../../domain/context.ts'
import { dayMs } from '../../domain/time.ts'
import { installation } from '../../installation.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const measuredDays = 7
const noteBelowDays = 30
const wrongBelowDays = 7

const why = 'Every read of a value is recorded: on a full disk the service serves none.'
const fix = `archive the trail ("${installation.command} audit archive"), set COFFER_AUDIT_DAYS, or make room.`

export function growthChecks(services: Services): Check[] {
  return [{ name: 'growth', why, fix, run: () => checkGrowth(services) }]
}

async function checkGrowth(services: Services): Promise<Finding> {
  const { audit } = services.store
  let bytes = await bytesOfDay(services, systemChain)
  let chain = await audit.findChainAfter('')
  for (; chain !== undefined; chain = await audit.findChainAfter(chain)) {
    if (chain !== systemChain) bytes += await bytesOfDay(services, chain)
  }
  const { dataDir, databaseUrl } = services.config
  const grows = `the audit trail takes ${(bytes / 1_000_000).toFixed(1)} MB a day`
  if (databaseUrl !== undefined || bytes === 0) return ok(grows)
  const { bavail, bsize } = await statfs(dataDir)
  const days = Math.floor((bavail * bsize) / bytes)
  const room = `${grows}, and the disk has room for ${days > 3_650 ? 'more than ten years' : `${days} days`}`
  if (days < wrongBelowDays) return wrong(room, why, fix)
  return days < noteBelowDays ? note(room, why, fix) : ok(room)
}

/** By the number of entries of the last days, and the size of the newest ones. */
async function bytesOfDay(services: Services, chain: string): Promise<number> {
  const { audit } = services.store
  const head = await audit.findHead(chain)
  if (!head) return 0
  const whole = { after: head.cutSequence, upTo: head.sequence }
  const work = await services.longWork.start()
  const days = { from: services.now() - measuredDays * dayMs, to: null }
  const { after, upTo } = await narrowToPeriod(services, chain, whole, days, work)
  if (upTo <= after) return 0
  const oldestAt = (await audit.findTime(chain, after + 1)) ?? 0
  // A service of less than a week is measured by its own age, of a day at least.
  const spanDays = Math.min(measuredDays, Math.max(1, (services.now() - oldestAt) / dayMs))
  return ((upTo - after) / spanDays) * (await audit.bytesPerEntry(chain, upTo))
}
