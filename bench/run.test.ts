import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startNode } from '../test/program.ts'
import type { Report } from './report.ts'

/** Speed means nothing while other tests run; this only checks that both engines are measured. */
test('a short run measures rows on both engines and writes the figures and the chart', {
  timeout: 1_200_000,
}, async () => {
  const wanted = ['SQLite: token, cold', 'PostgreSQL: read one']
  const folder = await mkdtemp(join(tmpdir(), 'coffer-bench-test-'))
  const [json, chart] = [join(folder, 'figures.json'), join(folder, 'chart.svg')]
  const options = ['--quick', '--seconds', '3', '--secrets', '100', '--json', json, '--chart', chart]
  const run = join(import.meta.dirname, 'run.ts')
  const { code, out, err } = await startNode([run, ...options, ...wanted.flatMap((row) => ['--only', row])]).ended
  expect({ code, err }, out).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/, load by (wrk|autocannon), one round of 3 s\.\n/)
  const { sections, skipped, starts }: Report = JSON.parse(await readFile(json, 'utf8'))
  const rows = sections.flatMap(({ title, rows }) => rows.map((row) => ({ ...row, full: `${title}: ${row.name}` })))
  expect(rows.map(({ full }) => full)).toEqual(wanted)
  for (const { full, perSecond, ratio, p50Ms, p99Ms, errors } of rows) {
    expect(errors, full).toBe(0)
    expect(Math.min(perSecond, ratio, p50Ms), full).toBeGreaterThan(0)
    expect(p99Ms, full).toBeGreaterThanOrEqual(p50Ms)
  }
  expect(skipped).toEqual([])
  expect(starts.map(({ engine }) => engine)).toEqual(['SQLite', 'PostgreSQL'])
  expect(await readFile(chart, 'utf8')).toMatch(/^<svg [\s\S]*<\/svg>\n$/)
  await rm(folder, { recursive: true })
})
