/** A short run of the torture, the same each time: it does something of everything and finds nothing. */
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ended, startNode } from '../test/program.ts'
import type { Counts } from './case.ts'
import { cases } from './cases.ts'
import { canariesIn, canary } from './fuzz-world.ts'
import { findUnsynced } from './system-calls.ts'
import type { Result } from './trial.ts'

const run = join(import.meta.dirname, 'run.ts')
const torture = (...args: string[]) => startNode([run, ...args]).ended

/** What it does at least, on each engine. */
const least: Record<string, Counts> = {
  fuzz: { requests: 500, operations: 50, 'operations that succeeded': 20 },
  raw: { 'requests of the corpus': 28, 'damaged requests': 200 },
  kill: { kills: 2, 'acknowledged writes': 2 },
  term: { stops: 1, answers: 50, 'acknowledged writes': 20 },
  outage: { stops: 1, 'acknowledged writes': 6 },
  disk: { 'times full': 1, 'told to come back': 10 },
  flip: { 'bits turned': 2 },
  sync: { 'acknowledged writes': 5, syncs: 3 },
  clock: { jumps: 1, 'acknowledged writes': 1 },
  migration: { kills: 2 },
  rotation: { 'rotations completed': 1, 'acknowledged writes': 1 },
  limiter: { clients: 4, requests: 300 },
  stall: { requests: 20, 'stalled readers': 60, 'slow writers': 60 },
  soak: { samples: 1, 'acknowledged writes': 1, reads: 1 },
}

describe('a short run', () => {
  const report = join(tmpdir(), `coffer-torture-${process.pid}.json`)
  let ended: Ended
  let results: Result[]
  beforeAll(async () => {
    ended = await torture('--short', '--seed', '1', '--json', report)
    results = JSON.parse(await readFile(report, 'utf8')).results
  }, 900_000)
  afterAll(() => rm(report, { force: true }))

  test('finds nothing', () => {
    expect(results.flatMap(({ findings }) => findings)).toEqual([])
    expect(ended).toMatchObject({ code: 0, err: '' })
    expect(ended.out).toMatch(/\d+ cases run, \d+ skipped, 0 findings; seed 1\.\n$/)
  })

  test.each(cases.flatMap(({ name, engines }) => engines.map((engine) => [name, engine] as const)))(
    'does %s on %s, or says why it cannot',
    (name, engine) => {
      const result = results.find((one) => one.name === name && one.engine === engine)
      if (result?.skipped !== undefined) {
        expect(result.skipped).toMatch(/^(needs|no tmpfs|strace may not)/)
        expect(ended.out).toContain(`skipped: ${result.skipped}\n`)
        return
      }
      for (const [what, count] of Object.entries(least[name] ?? { 'no such count': 1 })) {
        expect(result?.counts[what], what).toBeGreaterThanOrEqual(count)
      }
    },
  )
})

describe('the command', () => {
  test('explains itself, with every case', async () => {
    const { code, out } = await torture('--help')
    expect(code).toBe(0)
    for (const { name, about } of cases) expect(out).toContain(`  ${name.padEnd(12)}${about}`)
  })

  test.each([
    ['--only', 'nonsense'],
    ['--minutes', 'many'],
    ['--engine', 'mysql'],
    ['--seed', 'x'],
  ])('refuses %s %s in one sentence', async (...args) => {
    const { code, out, err } = await torture(...args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^[^\n]+: see --help\.\n$/)
  })
})

test('a canary is seen in a text, in JSON and in base64, with the name of its tenant', () => {
  const value = canary('t7', 'first-KEY')
  for (const text of [value, JSON.stringify({ value }), `data: ${Buffer.from(value).toString('base64')}`]) {
    expect([...canariesIn(text)]).toEqual(['t7'])
  }
  expect(canariesIn('canaries and a canary').size).toBe(0)
})

describe('what the kernel saw', () => {
  const log = /coffer\.db-wal>/
  const lines = (...calls: string[]) => calls.map((call) => `7 ${call}`).join('\n')
  const arrival = 'read(20<socket:[1]>, "PUT /v1/workspace", 65536) = 300'
  const answer = 'writev(20<socket:[1]>, [{iov_base="HTTP/1.1 200 OK\\r\\n", iov_len=300}], 1) = 300'
  const synced = 'fdatasync(22</tmp/coffer.db-wal>) = 0'

  test('is an answer after a sync', () => {
    expect(findUnsynced(lines(arrival, synced, answer), log)).toEqual({ acknowledged: 1, syncs: 1, unsynced: [] })
    const halves = `7 fdatasync(22</tmp/coffer.db-wal> <unfinished ...>\n9 ${synced.replace('wal', 'shm')}\n7 <... fdatasync resumed>) = 0`
    expect(findUnsynced(`${lines(arrival)}\n${halves}\n${lines(answer)}`, log).unsynced).toEqual([])
  })

  test.each([
    ['before the request', [synced, arrival, answer]],
    ['after the answer', [arrival, answer, synced]],
    ['of another file', [arrival, synced.replace('-wal', ''), answer]],
    ['that failed', [arrival, synced.replace('= 0', '= -1 EIO'), answer]],
  ])('is not enough with a sync %s', (_what, calls) => {
    expect(findUnsynced(lines(...calls), log).unsynced).toHaveLength(1)
  })
})
