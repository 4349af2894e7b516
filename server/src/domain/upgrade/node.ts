/** The nodes of a store on PostgreSQL. Each keeps a row with its version, and renews it while it runs. */
import { hostname } from 'node:os'
import { newId } from '../../crypto/id.ts'
import type { NodeRow } from '../../store/node.ts'
import { newestLevel } from '../../store/upgrade-switch.ts'
import type { Services } from '../context.ts'
import { dayMs, minuteMs, secondMs } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'

export const nodeBeatMs = 20 * secondMs
/** A node without a beat for this long is gone, even if it could not say so. */
const livesForMs = 2 * minuteMs

export type Node = {
  beat(): Promise<void>
  leave(): Promise<void>
}

/** SQLite has one node, and a write for each beat would keep its disk awake. */
export function createNode(services: Services): Node {
  const { engine, version, now } = services
  const id = newId()
  const isAlone = engine.kind === 'sqlite'
  return {
    async beat() {
      if (isAlone) return
      await inQuietTransaction(services, 'node', async ({ nodes }) => {
        await nodes.save({ id, name: hostname(), version, level: newestLevel, seenAt: now() })
        nodes.removeSeenBefore(now() - dayMs)
      })
    },
    async leave() {
      if (!isAlone) await inQuietTransaction(services, 'node', ({ nodes }) => nodes.remove(id))
    },
  }
}

export function listLiveNodes({ store, now }: Pick<Services, 'store' | 'now'>): Promise<NodeRow[]> {
  return store.nodes.listSeenAfter(now() - livesForMs)
}
