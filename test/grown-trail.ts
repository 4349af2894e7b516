/** A long audit trail, written through the code that records reads, many commits' worth at once. */
import { newId } from '../server/src/crypto/id.ts'
import { appendEntries } from '../server/src/domain/audit/append.ts'
import { type SharedFields, sharedFields } from '../server/src/store/audit/batch.ts'
import { storeOver } from '../server/src/store/store.ts'
import type { TestService } from './harness.ts'

type Growth = {
  /** Rows of the trail; each is one link of the chain. */
  readonly rows: number
  readonly entriesPerRow?: number
  /** The time of the n-th entry. */
  readonly at?: (index: number) => number
  readonly entityName?: (index: number) => string
}

const readOf = (name: string): SharedFields => {
  const actor = { actorType: 'token', actorId: 'grown', actorName: 'grown' }
  const entity = { action: 'VIEW', entityType: 'secret', entityId: newId(), entityName: name }
  const place = { projectId: null, environmentId: null, ip: '127.0.0.1', userAgent: 'test', outcome: 'success' }
  return sharedFields({ ...actor, ...entity, ...place }, JSON.stringify('{}'))
}

export async function growTrail({ app }: TestService, chain: string, growth: Growth): Promise<void> {
  const { engine, keys, log, chainMemory, now } = app.services
  const { rows, entriesPerRow = 1, at = now, entityName = () => 'GROWN' } = growth
  const known = new Map<string, SharedFields>()
  const sharedOf = (name: string) => {
    const shared = known.get(name) ?? readOf(name)
    known.set(name, shared)
    return shared
  }
  await engine.transaction(chain, async (transaction) => {
    const ctx = { keys, log, chainMemory, store: storeOver(transaction.db, keys), transaction }
    for (let row = 0; row < rows; row++) {
      const entries = Array.from({ length: entriesPerRow }, (_, place) => {
        const index = row * entriesPerRow + place
        return { chain, id: newId(), at: at(index), requestId: 'grown', shared: sharedOf(entityName(index)), lists: [] }
      })
      const remember = await appendEntries(ctx, chain, entries)
      remember()
    }
  })
}
