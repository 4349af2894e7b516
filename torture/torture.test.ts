/** The torture's command line, and its parsing of strace output and canaries; run.test.ts runs the cases. */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startNode } from '../test/program.ts'
import { cases } from './cases.ts'
import { canariesIn, canary } from './client/fuzz-world.ts'
import { findUnsynced } from './machine/system-calls.ts'

const run = join(import.meta.dirname, 'run.ts')
const torture = (...args: string[]) => startNode([run, ...args]).ended

describe('the command', () => {
  test('explains every case in its help', async () => {
    const { code, out } = await torture('--help')
    expect(code).toBe(0)
    for (const { name, about } of cases) expect(out).toContain(`  ${name.padEnd(12)}${about}`)
  })

  test.each([
    ['--only', 'nonsense'],
    ['--minutes', 'many'],
    ['--engine', 'mysql'],
    ['--seed', 'x'],
  ])('rejects %s %s in one sentence', async (...args) => {
    const { code, out, err } = await torture(...args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^[^\n]+: see --help\.\n$/)
  })
})

test('a canary is found in plain text, JSON and base64, with the name of its tenant', () => {
  const value = canary('t7', 'first-KEY')
  for (const text of [value, JSON.stringify({ value }), `data: ${Buffer.from(value).toString('base64')}`]) {
    expect([...canariesIn(text)]).toEqual(['t7'])
  }
  expect(canariesIn('canaries and a canary').size).toBe(0)
})

describe('the strace check', () => {
  const log = /coffer\.db-wal>/
  const lines = (...calls: string[]) => calls.map((call) => `7 ${call}`).join('\n')
  const arrival = 'read(20<socket:[1]>, "PUT /v1/workspace", 65536) = 300'
  const answer = 'writev(20<socket:[1]>, [{iov_base="HTTP/1.1 200 OK\\r\\n", iov_len=300}], 1) = 300'
  const synced = 'fdatasync(22</tmp/coffer.db-wal>) = 0'

  test('accepts a response after a sync', () => {
    expect(findUnsynced(lines(arrival, synced, answer), log)).toEqual({ acknowledged: 1, syncs: 1, unsynced: [] })
    const halves = `7 fdatasync(22</tmp/coffer.db-wal> <unfinished ...>\n9 ${synced.replace('wal', 'shm')}\n7 <... fdatasync resumed>) = 0`
    expect(findUnsynced(`${lines(arrival)}\n${halves}\n${lines(answer)}`, log).unsynced).toEqual([])
  })

  test.each([
    ['before the request', [synced, arrival, answer]],
    ['after the answer', [arrival, answer, synced]],
    ['of another file', [arrival, synced.replace('-wal', ''), answer]],
    ['that failed', [arrival, synced.replace('= 0', '= -1 EIO'), answer]],
  ])('rejects a response with only a sync %s', (_what, calls) => {
    expect(findUnsynced(lines(...calls), log).unsynced).toHaveLength(1)
  })
})
