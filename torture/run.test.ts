/** A short run with a fixed seed covers every case. */
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ended, startNode } from '../test/program.ts'
import type { Counts } from './case.ts'
import { cases } from './cases.ts'
import type { Result } from './trial.ts'

const run = join(import.meta.dirname, 'run.ts')
const { COFFER_TEST_SERVER } = process.env
const serverProgram = COFFER_TEST_SERVER === undefined ? {} : { COFFER_TEST_SERVER }

/** Minimum counts on each engine. */
const minimumCounts: Record<string, Counts> = {
  fuzz: { requests: 500, operations: 50, 'operations that succeeded': 20 },
  raw: { 'requests of the corpus': 28, 'damaged requests': 200 },
  kill: { kills: 2, 'acknowledged writes': 2 },
  term: { stops: 1, answers: 50, 'acknowledged writes': 20 },
  outage: { stops: 1, 'acknowledged writes': 6 },
  failover: { failovers: 1, 'acknowledged writes': 40 },
  pgbouncer: { restarts: 1, 'acknowledged writes': 20, 'refused with 503': 1 },
  nodes: { 'nodes added': 1, 'nodes killed': 1, 'acknowledged writes': 60, reads: 20 },
  disk: { 'times full': 1, 'refused with 503': 10 },
  'backup-disk': { 'times full': 1, 'backups verified': 1, 'acknowledged writes': 20 },
  flip: { 'bits flipped': 2 },
  sync: { 'acknowledged writes': 5, syncs: 3 },
  clock: { jumps: 1, 'acknowledged writes': 1 },
  migration: { kills: 2 },
  upgrade: { 'nodes replaced': 3, 'acknowledged writes': 60, reads: 20 },
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
    ended = await startNode([run, '--short', '--seed', '1', '--json', report], serverProgram).ended
    results = JSON.parse(await readFile(report, 'utf8')).results
  }, 3_600_000)
  afterAll(() => rm(report, { force: true }))

  test('has no findings', () => {
    expect(results.flatMap(({ findings }) => findings)).toEqual([])
    expect(ended).toMatchObject({ code: 0, err: '' })
    expect(ended.out).toMatch(/\d+ cases run, \d+ skipped, 0 findings; seed 1\.\n$/)
  })

  test.each(cases.flatMap(({ name, engines }) => engines.map((engine) => [name, engine] as const)))(
    'runs %s on %s, or prints why it cannot',
    (name, engine) => {
      const result = results.find((one) => one.name === name && one.engine === engine)
      if (result?.skipped !== undefined) {
        expect(result.skipped).toMatch(/^(needs|no tmpfs|strace may not)/)
        expect(ended.out).toContain(`skipped: ${result.skipped}\n`)
        return
      }
      for (const [what, count] of Object.entries(minimumCounts[name] ?? { 'no such count': 1 })) {
        expect(result?.counts[what], what).toBeGreaterThanOrEqual(count)
      }
    },
  )
})
