/** Where in the trail a period of time lies, so that a search for it does not look at everything. */
import type { Work } from '../../long-work.ts'
import type { Stretch } from '../../store/audit/audit.ts'
import type { AuditFilter } from '../../store/audit/search.ts'
import type { Context } from '../context.ts'
import { minuteMs } from '../time.ts'

/** Two nodes write to one trail, each by its own clock, and each clock may be wrong by this much in either direction. */
const clockLeewayMs = minuteMs
/** So times need not rise with the sequence, but no entry is older than an earlier one by more than this. */
const maxDisorderMs = 2 * clockLeewayMs

/**
 * The part of a stretch that holds every entry from `from` to `to`, found by bisection and widened by the disorder of
 * clocks. The entries beside its borders are looked at too, in case a clock was wrong by more.
 */
export async function narrowToPeriod(
  { store: { audit } }: Pick<Context, 'store'>,
  chain: string,
  whole: Stretch,
  { from, to }: Pick<AuditFilter, 'from' | 'to'>,
  { giveWay }: Work,
): Promise<Stretch> {
  /** The first position whose entry is later than `limitMs`; the end of the stretch if there is none. */
  async function findFirstAfter(limitMs: number): Promise<number> {
    let [low, high] = [whole.after + 1, whole.upTo + 1]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const at = await audit.findTime(chain, middle)
      if (at !== undefined && at > limitMs) high = middle
      else low = middle + 1
      await giveWay()
    }
    return low
  }

  const isWithin = (at: number) => (from === null || at >= from) && (to === null || at <= to)
  const hasWithin = async (stretch: Stretch) => {
    const times = await audit.listTimes(chain, stretch)
    await giveWay()
    return times.some(isWithin)
  }

  let { after, upTo } = whole
  if (from !== null) after = (await findFirstAfter(from - maxDisorderMs)) - 1
  if (to !== null) upTo = (await findFirstAfter(to + maxDisorderMs)) - 1
  while (after > whole.after) {
    const before = await audit.stretchUpTo(chain, after)
    if (!(await hasWithin(before))) break
    after = Math.max(before.after, whole.after)
  }
  while (upTo < whole.upTo) {
    const next = await audit.stretchAfter(chain, upTo, whole.upTo)
    if (!(await hasWithin(next))) break
    upTo = next.upTo
  }
  return { after, upTo }
}
