/** Clocks: those of this machine, of the store's newest change, and of the database. Redis is asked in `peer.ts`. */
import type { Services } from '../../domain/context.ts'
import { sql } from '../../store/engine/sql.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const wrongFromMs = 30_000
const noteFromMs = 2_000

const why = 'Sessions, tokens and shares end too early or too late, and nodes disagree about it.'
const fix = 'set the clock and keep it right, for example with "timedatectl set-ntp true".'

export function clockChecks({ engine, store }: Services): Check[] {
  const ofStore: Check = {
    name: 'clock',
    why,
    fix,
    run: async () => {
      const aheadMs = (await store.changes.newestAt()) - Date.now()
      if (aheadMs <= wrongFromMs) return ok('not behind the newest change in the store')
      return wrong(`the store holds changes ${Math.round(aheadMs / 1_000)} s in the future`, why, fix)
    },
  }
  if (engine.kind === 'sqlite') return [ofStore]
  const ask = async () => {
    const row = await engine.one<{ at: number }>(
      sql`select cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as at`,
    )
    return row?.at ?? 0
  }
  return [ofStore, { name: 'clock of PostgreSQL', why, fix, run: () => compareClock(ask) }]
}

/** Compares with the middle of the question, since the answer takes time. */
export async function compareClock(ask: () => Promise<number>): Promise<Finding> {
  const askedAt = Date.now()
  const theirs = await ask()
  const answeredAt = Date.now()
  const apartMs = Math.abs(theirs - (askedAt + answeredAt) / 2) - (answeredAt - askedAt) / 2
  const seconds = `${(apartMs / 1_000).toFixed(1)} s apart from the clock of this machine`
  if (apartMs >= wrongFromMs) return wrong(seconds, why, fix)
  return apartMs >= noteFromMs ? note(seconds, why, fix) : ok('agrees with the clock of this machine')
}
