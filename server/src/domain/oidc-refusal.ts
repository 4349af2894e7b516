/**
 * Which refused exchanges are written into the audit trail. Anybody can send tokens that are refused, so a workspace
 * keeps the first few of each minute, and with the next one how many there were besides.
 */
import { minuteMs } from './time.ts'

const maxPerMinute = 20
const maxWorkspaces = 10_000

export type Refusals = {
  /** Undefined where this one is not to be recorded; else how many were not since the last that was. */
  admit(workspaceId: string): { readonly unrecorded: number } | undefined
}

export function createRefusals(now: () => number): Refusals {
  const counts = new Map<string, { startedAt: number; recorded: number; unrecorded: number }>()
  return {
    admit(workspaceId) {
      const at = now()
      const count = counts.get(workspaceId) ?? { startedAt: at, recorded: 0, unrecorded: 0 }
      // A clock that jumps back must not freeze a minute.
      if (at - count.startedAt >= minuteMs || at < count.startedAt) Object.assign(count, { startedAt: at, recorded: 0 })
      counts.delete(workspaceId)
      counts.set(workspaceId, count)
      const oldest = counts.keys().next()
      if (counts.size > maxWorkspaces && !oldest.done) counts.delete(oldest.value)
      if (count.recorded >= maxPerMinute) {
        count.unrecorded++
        return undefined
      }
      const { unrecorded } = count
      count.recorded++
      count.unrecorded = 0
      return { unrecorded }
    },
  }
}
