/** A stretch of a long trail is read by index: no row outside of it is visited. */
import type { AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { growTrail } from '../../../../test/grown-trail.ts'
import { engine, registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { newId } from '../../crypto/id.ts'
import { compile, type Db, readOnly, type Sql } from '../engine/sql.ts'
import { auditStore } from './audit.ts'
import { composeBatch, type SharedFields } from './batch.ts'
import { emptyHash } from './entry.ts'
import { auditRetentionStore } from './retention.ts'

let service: TestService
let raw: RawDatabase
let session: string
let chain: string
let head: number

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  // PostgreSQL would read tables of this size as a whole.
  if (engine === 'postgres') await raw.query('set enable_seqscan = off')
  session = (await registerOwner(service)).session
  chain = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body.id
  await growTrail(service, chain, { rows: 3_000, entriesPerRow: 3 })
  head = (await service.app.services.store.audit.findHead(chain))?.sequence ?? 0
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** Every statement of the work, with its parameters. */
async function statementsOf(work: (db: Db) => Promise<unknown>): Promise<Sql[]> {
  const asked: Sql[] = []
  const { engine: real } = service.app.services
  const note = <Args extends [Sql], Result>(call: (...args: Args) => Result) => {
    return (...args: Args) => {
      asked.push(args[0])
      return call(...args)
    }
  }
  await work({ ...readOnly(real), one: note(real.one), all: note(real.all) } as Db)
  return asked
}

type Plan = { readonly Plans?: readonly Plan[] } & Record<string, unknown>

/** The largest number of rows that one step of the plan visits, as PostgreSQL counts them while it runs the statement. */
function mostVisited(plan: Plan): number {
  const visited = Number(plan['Actual Rows'] ?? 0) + Number(plan['Rows Removed by Filter'] ?? 0)
  return Math.max(visited, ...(plan.Plans ?? []).map(mostVisited))
}

/** The rows that the statement visits; on SQLite, which counts none, index ranges without an upper end must take one row alone. */
async function expectBounded(query: Sql, most: number): Promise<void> {
  const { text, kinds } = compile(query, engine)
  const values = query.values.filter((_, index) => kinds[index] !== 'fragment')
  const given = values.map((value) => (Object(value).list ? listOf(Object(value).list) : value)) as Cell[]
  if (engine === 'postgres') {
    const [row] = await raw.query(`explain (analyze, format json) ${text.replaceAll(/\$\d+/g, '?')}`, given)
    const [{ Plan: plan }] = Object(row)['QUERY PLAN']
    expect(mostVisited(plan), text).toBeLessThanOrEqual(most)
    return
  }
  const steps = await raw.query(`explain query plan ${text}`, given)
  const isFirstRow = (step: unknown) =>
    steps.some(({ id, detail }) => id === step && /SCALAR SUBQUERY/.test(String(detail)))
  const open = steps.filter(({ detail, parent }) => {
    const isOfTrail = /^(SCAN|SEARCH) (audit_entry|audit_batch|[a-z]) /.test(String(detail))
    const isEnd = / COVERING /.test(String(detail)) && isFirstRow(parent)
    return isOfTrail && !isEnd && !/sequence<\?\)$/.test(String(detail))
  })
  expect(open, text).toEqual([])
}

const listOf = (list: readonly string[]) => (engine === 'postgres' ? list : JSON.stringify(list))

test.each([1_000, 4_500, 8_999])('a stretch around entry %i visits its own rows alone', async (upTo) => {
  const statements = await statementsOf(async (db) => {
    const store = auditStore(db)
    const stretch = await store.stretchUpTo(chain, upTo)
    await store.stretchAfter(chain, upTo - 500, head)
    const links = await store.listLinks(chain, stretch)
    expect(links.length).toBeGreaterThan(160)
    const nothing = { actor: 'nobody', action: null, entity: null, project: null, environment: null }
    const filter = { ...nothing, from: null, to: null, text: null }
    await store.searchStretch(
      chain,
      stretch,
      filter,
      async () => ({ length: 0 }),
      10,
      () => undefined,
    )
  })
  expect(statements.length).toBeGreaterThan(4)
  // Both kinds of rows of one stretch, and the row that ends it.
  for (const statement of statements) await expectBounded(statement, 600)
})

test('the removal of entries looks for references to a key list only as far as they may lie', async () => {
  const statements: Sql[] = []
  const db = { ...readOnly(service.app.services.engine), write: (query: Sql) => void statements.push(query) }
  auditRetentionStore(db).removeThrough(chain, 10)
  const [last] = statements.slice(-1)
  if (!last) throw new Error('nothing was removed')
  const list = "insert into audit_key_list (chain_id, digest, keys, last_sequence) values (?, 'unused', '[]', 5)"
  await raw.query(list, [chain])
  await raw.query('begin')
  // Entries that may refer to the list, of which a row holds three.
  await expectBounded(last, 700)
  await raw.query('rollback')
})

describe('a row that overlaps genuine ones across the border of two stretches is found by the verification', () => {
  const firstBroken = async () => {
    const { body } = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: session })
    return body.firstBroken
  }

  test.each([498, 499, 500, 501, 502])('an entry within a batch, at %i', async (sequence) => {
    await raw.restoring(['audit_entry'], async () => {
      const [entry = {}] = await raw.query('select * from audit_entry where chain_id = ? limit 1', [chain])
      const forged = { ...entry, sequence, id: newId() }
      const marks = Object.keys(forged).map(() => '?')
      await raw.query(`insert into audit_entry (${Object.keys(forged)}) values (${marks})`, Object.values(forged))
      expect(await firstBroken()).toBeGreaterThan(sequence - 3)
    })
    expect(await firstBroken()).toBeUndefined()
  })

  test('a batch that begins in one stretch and ends in the next', async () => {
    await raw.restoring(['audit_batch'], async () => {
      const after = 'select * from audit_batch where chain_id = ? and last_sequence > ? order by last_sequence limit 1'
      const last = (await raw.query(after, [chain, 3_000]))[0]?.last_sequence
      const shared: SharedFields = { before: `${'"",'.repeat(7)}null,null,"",""`, after: '"success","{}"' }
      const entries = Array.from({ length: Number(last) - 1_501 }, () => ({
        ...{ id: newId(), at: 0, requestId: 'forged', lists: [], shared },
      }))
      const row = composeBatch(chain, { sequence: 1_500, hash: emptyHash }, entries)
      await service.app.services.engine.transaction(chain, async ({ db }) => auditStore(db).insertBatch(row))
      expect(await firstBroken()).toBeLessThan(4_001)
    })
    expect(await firstBroken()).toBeUndefined()
  })
})
