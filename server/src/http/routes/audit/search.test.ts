/** Searches of a long trail: each works for a bounded time, says how far it has looked, and skips what is out of its period. */
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { growTrail } from '../../../../../test/grown-trail.ts'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { createLongWork } from '../../../long-work.ts'

const path = '/v1/workspace/main/audit'
const rows = 2_000
const entriesPerRow = 3
const minuteMs = 60_000
const began = Date.parse('2020-01-01T00:00:00Z')

let service: TestService
let session: string
let all: AuditEntry[]

/** Clocks of nodes differ by two minutes at most, except for a few entries whose clock was an hour behind. */
function timeOf(index: number): number {
  const isLate = index > 3_300 && index <= 3_310
  return began + index * minuteMs + (((index * 7) % 5) - 2) * (minuteMs / 2) - (isLate ? 60 * minuteMs : 0)
}

beforeAll(async () => {
  let ms = 0
  // Every look at the clock finds that a second has passed, so no search looks at more than one stretch.
  service = await startService({}, { longWork: createLongWork(() => (ms += 1_000)) })
  service.clock.fixedAt = began - minuteMs
  session = (await registerOwner(service)).session
  const { id } = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body
  const entityName = (index: number) => (index === 100 || index === 4_000 ? 'RARE' : 'COMMON')
  await growTrail(service, id, { rows, entriesPerRow, at: timeOf, entityName })
  const { text } = await service.call('GET', `${path}?format=ndjson`, { token: session })
  all = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .reverse()
  expect(all.length).toBeGreaterThanOrEqual(rows * entriesPerRow)
})
afterAll(() => service.stop())

type Found = { readonly entries: AuditEntry[]; readonly pages: number; readonly searchedTo: string[] }

async function searchAll(query: Record<string, string>): Promise<Found> {
  const found: { entries: AuditEntry[]; pages: number; searchedTo: string[] } = {
    entries: [],
    pages: 0,
    searchedTo: [],
  }
  for (let cursor: string | null = ''; cursor !== null; ) {
    const asked = new URLSearchParams({ limit: '200', ...query, ...(cursor !== '' && { cursor }) })
    const { body, status, text, headers } = await service.call<AuditEntry[]>('GET', `${path}?${asked}`, {
      token: session,
    })
    expect(status, text).toBe(200)
    found.entries.push(...body)
    found.pages++
    found.searchedTo.push(headers.get('x-searched-to') ?? '')
    const next: string | null = headers.get('x-next-cursor')
    expect(next).not.toBe(cursor)
    cursor = next
  }
  return found
}

describe('a search', () => {
  test('answers after a bounded time without a match, and its cursor leads to every match', async () => {
    const { headers, body } = await service.call<AuditEntry[]>('GET', `${path}?entity=RARE`, { token: session })
    expect(body).toEqual([])
    expect(headers.get('x-next-cursor')).not.toBeNull()
    const searchedTo = headers.get('x-searched-to')
    expect(all.map(({ at }) => at).indexOf(searchedTo ?? '')).toBeGreaterThan(0)

    const found = await searchAll({ entity: 'RARE' })
    expect(found.entries).toEqual(all.filter(({ entity }) => entity.name === 'RARE'))
    expect(found.entries).toHaveLength(2)
    expect(found.pages).toBeGreaterThan(10)
    expect(found.searchedTo[0]).toBe(searchedTo)
    expect(found.searchedTo.at(-1)).toBe(all.at(-1)?.at)
  })

  test('whose page is full says the time of its last entry', async () => {
    const { headers, body } = await service.call<AuditEntry[]>('GET', `${path}?limit=7`, { token: session })
    expect(body).toEqual(all.slice(0, 7))
    expect(headers.get('x-searched-to')).toBe(body.at(-1)?.at)
  })

  test('without a filter pages through every entry once', async () => {
    expect((await searchAll({})).entries).toEqual(all)
  })
})

describe('a period', () => {
  const moment = (index: number) => new Date(began + index * minuteMs).toISOString()
  const periods: [what: string, query: { from?: string; to?: string }, mostPages: number][] = [
    ['in the middle', { from: moment(2_500), to: moment(2_600) }, 2],
    ['before a moment', { to: moment(300) }, 3],
    ['after a moment', { from: moment(5_800) }, 3],
    ['with entries of a clock that was far behind after its end', { from: moment(3_235), to: moment(3_252) }, 3],
    ['with entries of a clock that was far behind before its beginning', { from: moment(3_305), to: moment(3_400) }, 3],
    ['before the trail', { to: '2019-01-01T00:00:00Z' }, 1],
    ['after the trail', { from: '2100-01-01T00:00:00Z' }, 1],
    ['of nothing', { from: moment(2_600), to: moment(2_500) }, 2],
  ]

  test.each(periods)('%s: finds exactly its entries, and looks at little else', async (_what, query, mostPages) => {
    const { from = '', to = '9' } = query
    const wanted = all.filter(({ at }) => at >= from && at <= to)
    const found = await searchAll(query)
    expect(found.entries).toEqual(wanted)
    // The trail has twelve stretches and more, and a page of one stretch at most holds 200 entries.
    expect(found.pages).toBeLessThanOrEqual(mostPages + Math.ceil(wanted.length / 200))
    const { text } = await service.call('GET', `${path}?${new URLSearchParams({ ...query, format: 'ndjson' })}`, {
      token: session,
    })
    const lines = text.split('\n').filter((line) => line !== '')
    expect(lines.map((line) => JSON.parse(line))).toEqual(wanted.toReversed())
  })

  test('an export looks at its period alone', async () => {
    const { audit } = service.app.services.store
    const { searchStretch } = audit
    let looked = 0
    Object.assign(audit, {
      searchStretch: (...asked: Parameters<typeof searchStretch>) => {
        looked += asked[1].upTo - asked[1].after
        return searchStretch(...asked)
      },
    })
    const query = new URLSearchParams({ from: moment(2_500), to: moment(2_600), format: 'ndjson' })
    await service.call('GET', `${path}?${query}`, { token: session })
    Object.assign(audit, { searchStretch })
    expect(looked).toBeLessThan(200)
  })
})
