/** Tampering with archived entries, their marks or an archive file is detected, and removes nothing. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Audited, entriesOf, keys, linesOf, startAudited, tomorrow } from '../../../test/audited.ts'
import { runHere } from '../../../test/command.ts'
import type { TestService } from '../../../test/harness.ts'
import type { RawDatabase } from '../../../test/raw-database.ts'

let audited: Audited
let service: TestService
let raw: RawDatabase
let folder: string
let mainId: string

beforeEach(async () => {
  audited = await startAudited()
  ;({ service, raw, folder, mainId } = audited)
})
afterEach(() => audited.stop())

describe('tampering', () => {
  test.each([
    ['removed', `delete from audit_mark where kind = 'cut'`],
    ['moved ahead', `update audit_mark set sequence = sequence + 1 where kind = 'cut'`],
    ['moved back', `update audit_mark set sequence = sequence - 1 where kind = 'cut'`],
    ['given another hash', `update audit_mark set hash = '${'f'.repeat(64)}' where kind = 'cut'`],
    ['given another time', `update audit_mark set at = at + 1 where kind = 'cut'`],
    [
      'given the signature of the archive',
      `update audit_mark set
         signature = (select a.signature from audit_mark a where a.chain_id = audit_mark.chain_id and a.kind = 'archive'),
         at = (select a.at from audit_mark a where a.chain_id = audit_mark.chain_id and a.kind = 'archive')
       where kind = 'cut'`,
    ],
  ])('a cut mark that was %s is detected', async (_what, statement) => {
    await audited.archive('--before', tomorrow())
    await audited.readTwice()
    await raw.restoring(['audit_mark'], async () => {
      await raw.query(statement)
      expect((await audited.verify()).ok).toBe(false)
    })
    expect((await audited.verify()).ok).toBe(true)
  })

  test('missing entries after the cut and restored entries before it are detected', async () => {
    const [first] = await raw.query('select * from audit_entry where chain_id = ? and sequence = 1', [mainId])
    await audited.archive('--before', tomorrow())
    await audited.readTwice()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query('delete from audit_entry where chain_id = ?', [mainId])
      expect((await audited.verify()).ok).toBe(false)
    })
    await raw.restoring(['audit_entry'], async () => {
      const columns = Object.keys(first ?? {})
      await raw.query(
        `insert into audit_entry (${columns}) values (${columns.map(() => '?')})`,
        Object.values(first ?? {}),
      )
      expect((await audited.verify()).ok).toBe(false)
    })
    expect((await audited.verify()).ok).toBe(true)
  })

  test('a broken chain is neither archived nor cut; other chains are', async () => {
    const before = await audited.listAll()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query(`update audit_entry set actor_name = 'somebody else' where chain_id = ? and sequence = 2`, [
        mainId,
      ])
      const { code, out } = await audited.archive('--before', tomorrow())
      expect(code).toBe(1)
      expect(out).toContain('main: The audit trail is broken at entry 2')
      expect(out).toContain('ok     system')
      expect(await audited.listFiles()).toEqual([])
    })
    expect(await audited.listAll()).toEqual(before)
  })

  test('entries that were changed after they were archived are not removed', async () => {
    await audited.archive()
    const before = await audited.listAll()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query(`update audit_entry set ip = 'elsewhere' where chain_id = ? and sequence = 2`, [mainId])
      await audited.removeLater()
    })
    expect(await audited.listAll()).toEqual(before)
    expect(service.logs.join('')).toContain('archived audit entries could not be removed')
  })

  test('an archive mark without a valid signature removes nothing', async () => {
    const before = await audited.listAll()
    await audited.archive('--workspace', 'main', '--before', '2000-01-01')
    await raw.query(
      `insert into audit_mark (chain_id, kind, sequence, hash, at, signature, key_id)
       select chain_id, 'archive', sequence, hash, 1, signature, key_id from audit_head where chain_id = ?`,
      [mainId],
    )
    await audited.removeLater()
    expect(await audited.listAll()).toEqual(before)
    await audited.archive()
    expect(await entriesOf((await audited.listFiles())[0] ?? '')).toEqual(before.reverse())
  })

  test('every change to an archive is detected', async () => {
    await audited.archive()
    const [file = ''] = await audited.listFiles()
    const lines = await linesOf(file)
    const changed: [string, string[]][] = lines.flatMap((line, at): [string, string[]][] => [
      [`without line ${at}`, lines.toSpliced(at, 1)],
      [`line ${at} twice`, lines.toSpliced(at, 0, line)],
      [`line ${at} another`, lines.toSpliced(at, 1, line.replace(/operator|[3-8]|A_KEY/, 'x'))],
      [`line ${at} exchanged`, at === 0 ? [] : lines.toSpliced(at - 1, 2, line, lines[at - 1] ?? '')],
    ])
    changed.push(['a shorter list', lines.map((line) => line.replace(`"${keys[5]}",`, ''))])
    changed.push(['another date', lines.map((line) => line.replace(/"at":"(....)/, '"at":"1999'))])
    const forged = join(folder, 'forged.ndjson')
    for (const [what, content] of changed) {
      await writeFile(forged, content.map((line) => `${line}\n`).join(''))
      const { code, out } = await runHere(['audit', 'verify-archive', forged])
      expect({ what, code }).toEqual({ what, code: 1 })
      expect(out, what).toMatch(/^ {2}wrong .*: line \d+: .*\.\n$/)
    }
    expect((await runHere(['audit', 'verify-archive', file])).code).toBe(0)
  })
})
