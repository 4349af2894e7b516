/** `coffer-server doctor --json` on a database. */
import { expect } from 'vitest'
import { runHere } from './command.ts'
import type { Database } from './harness.ts'

type Found = { check: string; level: string; what: string; why: string | null; fix: string | null }
type Settings = Record<string, string>

/** Checks the form of every finding, and that the exit code fits them. */
export async function diagnose({ settings }: Database, more: Settings = {}): Promise<Found[]> {
  const { code, out, err } = await runHere(['doctor', '--json'], { ...settings, COFFER_PORT: '0', ...more })
  expect(err).toBe('')
  const found: Found[] = JSON.parse(out)
  for (const { level, what, why, fix } of found) {
    expect(['ok', 'note', 'wrong']).toContain(level)
    // A teacher says what, why and how.
    if (level === 'ok') expect({ why, fix }).toEqual({ why: null, fix: null })
    else expect(`${what}|${why}|${fix}`).toMatch(/^[^|\n]+\|[^|\n]+\.\|[^|\n]+\.$/)
  }
  expect(code).toBe(found.some(({ level }) => level === 'wrong') ? 1 : 0)
  return found
}

/** The findings of one check. */
export async function findingsOf(database: Database, check: string, settings: Settings = {}) {
  const found = await diagnose(database, settings)
  return found.filter((finding) => finding.check === check).map(({ level, what }) => ({ level, what }))
}
