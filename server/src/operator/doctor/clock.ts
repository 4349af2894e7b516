/** Clocks: those of this machine, of the store's newest change, and of the database. Redis is asked in `peer.ts`. */
import type { Services } from '../../domain/context.ts'
import { clockLeewayMs, measureClock, readClockOffset } from '../../domain/database-clock.ts'
import { dayMs } from '../../domain/time.ts'
import { newestTime } from '../../store/newest-time.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const noteFromMs = 2_000

const why = 'Sessions, tokens and shares end too early or too late, and nodes disagree about it.'
const fix = 'set the clock and keep it right, for example with "timedatectl set-ntp true".'

export function clockChecks({ engine }: Services): Check[] {
  const ofStore: Check = {
    name: 'clock',
    why,
    fix,
    run: async () => {
      const aheadMs = (await newestTime(engine)) - Date.now()
      if (aheadMs <= clockLeewayMs) return ok('not behind the newest change in the store')
      const [unitMs, unit] = aheadMs < 2 * dayMs ? [1_000, 's'] : [dayMs, 'days']
      return wrong(`the store holds changes ${Math.round(aheadMs / unitMs)} ${unit} in the future`, why, fix)
    },
  }
  if (engine.kind === 'sqlite') return [ofStore]
  const ofDatabase = async () => describeOffset((await readClockOffset(engine, Date.now)) ?? 0)
  return [ofStore, { name: 'clock of PostgreSQL', why, fix, run: ofDatabase }]
}

export const compareClock = async (ask: () => Promise<number>) => describeOffset(await measureClock(ask, Date.now))

function describeOffset(offsetMs: number): Finding {
  const apartMs = Math.abs(offsetMs)
  const seconds = `${(apartMs / 1_000).toFixed(1)} s apart from the clock of this machine`
  if (apartMs >= clockLeewayMs) return wrong(seconds, why, fix)
  return apartMs >= noteFromMs ? note(seconds, why, fix) : ok('agrees with the clock of this machine')
}
