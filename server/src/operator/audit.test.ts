/** Archives of the audit trail, and the removal of archived entries. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createTeam, registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'
import { startProgram, until } from '../../../test/program.ts'
import { openRaw, type RawDatabase } from '../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../test/secret-project.ts'
import { dayMs } from '../domain/time.ts'
import { removeOldEntries } from '../jobs/audit.ts'

let service: TestService
let owner: TestUser
let raw: RawDatabase
let project: SecretProject
let folder: string
let mainId: string

const days = 30
const keys = Array.from({ length: 40 }, (_, index) => `A_KEY_WITH_A_LONG_NAME_${index}`)
const tomorrow = () => new Date(Date.now() + dayMs).toISOString()

beforeEach(async () => {
  service = await startService({ COFFER_AUDIT_DAYS: String(days) })
  owner = await registerOwner(service)
  raw = await openRaw(service)
  folder = await mkdtemp(join(tmpdir(), 'coffer-archive-'))
  project = await createSecretProject(service, owner.session)
  await project.set('development', Object.fromEntries(keys.map((key) => [key, 'value-of-the-secret'])))
  await readTwice()
  mainId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterEach(async () => {
  await raw.close()
  await service.stop()
  await rm(folder, { recursive: true })
})

/** Two concurrent reads share a row. */
const readTwice = () => Promise.all([1, 2].map(() => project.must('GET', '/secret?environmentId=development')))

const ask = async <Body>(path: string) =>
  (await service.call<Body>('GET', `/v1/workspace/main/audit${path}`, { token: owner.session })).body
const verify = () => ask<AuditVerdict>('/verify')
const listAll = () => ask<AuditEntry[]>('?limit=200')
const countLists = async () => Number((await raw.query('select count(*) as n from audit_key_list'))[0]?.n)

async function archive(...args: string[]) {
  const { COFFER_AUDIT_DAYS: _days, ...settings } = service.settings
  const ended = await runHere(['audit', 'archive', '--to', folder, ...args], settings)
  expect(ended.err).toBe('')
  return ended
}

/** Runs the job at a time when all entries are older than the retention period. */
async function removeLater(): Promise<void> {
  service.clock.offsetMs = (days + 2) * dayMs
  await removeOldEntries(service.app.services)
  service.clock.offsetMs = 0
}

/** The archives of the workspace, oldest first. */
async function listFiles(): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.startsWith(`audit-${mainId}-`))
  const startOf = (name: string) => Number(name.slice(`audit-${mainId}-`.length).split('-')[0])
  return names.sort((a, b) => startOf(a) - startOf(b)).map((name) => join(folder, name))
}

const linesOf = async (file: string) => (await readFile(file, 'utf8')).trimEnd().split('\n')
const entriesOf = async (file: string) =>
  (await linesOf(file)).slice(1, -1).map((line): AuditEntry => {
    const { link: _link, ...entry } = JSON.parse(line)
    return entry
  })

test('archiving writes entries in full, removes them with their key lists, and the rest of the chain still verifies', async () => {
  const before = (await listAll()).reverse()
  expect(await countLists()).toBe(1)
  expect((await archive('--before', tomorrow())).code).toBe(0)
  const [file = ''] = await listFiles()
  expect(await entriesOf(file)).toEqual(before)
  expect(await readFile(file, 'utf8')).not.toContain('value-of-the-secret')
  const left = await listAll()
  expect(left).toMatchObject([
    {
      sequence: before.length + 1,
      action: 'DELETE',
      entity: { type: 'audit', id: mainId },
      actor: { type: 'operator' },
    },
  ])
  expect(await countLists()).toBe(0)
  expect(await verify()).toEqual({ ok: true, entries: 1, head: left[0]?.hash })
  expect((await runHere(['doctor'], service.settings)).out).not.toContain('wrong')

  // The service had cached that the list is stored.
  await readTwice()
  expect(await countLists()).toBe(1)
  expect((await verify()).ok).toBe(true)
  expect((await ask<AuditEntry[]>(`?q=${keys[7]}`)).length).toBe(2)
})

test('searches in a long key list are archived in full, and the list stays while an entry refers to it', async () => {
  const names = Array.from({ length: 90 }, (_, index) => `ANOTHER_KEY_${index}`.padEnd(240, '_')).sort()
  await project.set('staging', Object.fromEntries(names.map((name) => [name, 'another'])))
  const search = (part: string) => project.must('GET', `/secret?environmentId=staging&q=${part}`)
  const matching = (part: string) => names.filter((name) => name.includes(part))
  await search('KEY_1')
  await search('KEY')
  const before = (await listAll()).reverse()
  expect(before.slice(-2).map(({ after }) => after?.keys)).toEqual([matching('KEY_1'), matching('KEY')])
  const soon = new Date(Date.now() + 60_000).toISOString()
  service.clock.offsetMs = 120_000
  await search('KEY_3')
  service.clock.offsetMs = 0
  await archive('--before', soon)
  const [file = ''] = await listFiles()
  expect(await entriesOf(file)).toEqual(before)
  expect((await runHere(['audit', 'verify-archive', file])).code).toBe(0)
  const lines = await linesOf(file)
  const searched = lines.findIndex((line) => line.includes('KEY_1_') && line.includes('\\"bits'))
  expect(JSON.parse(lines[searched] ?? '').after.keys).toEqual(matching('KEY_1'))
  for (const forgery of [
    lines[searched]?.replace(`"${matching('KEY_1')[2]}",`, ''),
    lines[searched]?.replace('"ANOTHER_KEY_1_', '"ANOTHER_KEY_2_'),
    lines[searched]?.replace('bits', 'other'),
  ]) {
    expect(forgery).not.toBe(lines[searched])
    await writeFile(file, lines.with(searched, forgery ?? '').join('\n'))
    expect((await runHere(['audit', 'verify-archive', file])).code).toBe(1)
  }

  const left = await listAll()
  expect(left.map(({ action }) => action)).toEqual(['DELETE', 'VIEW'])
  expect(left[1]?.after?.keys).toEqual(matching('KEY_3'))
  expect(await verify()).toMatchObject({ ok: true, entries: 2 })
  await archive('--before', tomorrow())
  expect(await countLists()).toBe(0)
  await search('KEY_1')
  expect((await listAll())[0]?.after?.keys).toEqual(matching('KEY_1'))
  expect((await verify()).ok).toBe(true)
})

test('each archive continues the previous one, and is verified without the service', async () => {
  await archive('--before', tomorrow())
  await readTwice()
  await archive()
  await createTeam(service, owner.session, 'Another')
  await archive()
  const files = await listFiles()
  expect(files).toHaveLength(3)
  expect((await Promise.all(files.map(entriesOf))).flat().map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: (await listAll())[0]?.sequence ?? 0 }, (_, index) => index + 1),
  )
  const checked = await runHere(['audit', 'verify-archive', ...files])
  expect(checked).toEqual({ code: 0, err: '', out: expect.stringMatching(/^( {2}ok .*signed by the key.*\n){3}$/) })
  const gap = await runHere(['audit', 'verify-archive', files[0] ?? '', files[2] ?? ''])
  expect(gap.code).toBe(1)
  expect(gap.out).toContain('does not continue the previous file')
  await archive()
  expect(await listFiles()).toEqual(files)
})

test('a Unicode line separator in a name does not split the line of an archive', async () => {
  await createTeam(service, owner.session, 'One\u2028two\u2029three\u0085four')
  await archive()
  const checked = await runHere(['audit', 'verify-archive', ...(await listFiles())])
  expect(checked).toEqual({ code: 0, err: '', out: expect.stringMatching(/^ {2}ok .*\n$/) })
})

test('archiving one workspace leaves the others unchanged; an unknown one is refused', async () => {
  await archive('--workspace', 'main', '--before', tomorrow())
  expect(await readdir(folder)).toHaveLength(1)
  const { code, err } = await runHere(['audit', 'archive', '--to', folder, '--workspace', 'none'], service.settings)
  expect({ code, err }).toEqual({ code: 1, err: 'There is no workspace "none".\n' })
})

test('only entries before the date are archived and removed', async () => {
  const before = await listAll()
  await archive('--before', new Date(Date.parse(before[0]?.at ?? '') - dayMs).toISOString())
  expect(await readdir(folder)).toEqual([])
  expect(await listAll()).toEqual(before)
})

test.each([
  [['--before', 'soon'], '--before must be a date'],
  [['--days', '3'], '"audit archive" takes --to <folder>'],
])('archiving refuses %j', async (args, message) => {
  const { code, err } = await runHere(['audit', 'archive', '--to', folder, ...args], service.settings)
  expect(code).toBe(1)
  expect(err).toContain(message)
})

test('a missing folder is named, and nothing is removed', async () => {
  const before = await listAll()
  const args = ['audit', 'archive', '--to', join(folder, 'absent'), '--before', tomorrow()]
  const { code, err } = await runHere(args, service.settings)
  expect(code).toBe(1)
  expect(err).toBe(`--to: the folder ${join(folder, 'absent')} does not exist.\n`)
  expect(await listAll()).toEqual(before)
})

test('verify-archive reports a missing file and a folder in plain words', async () => {
  const { code, out } = await runHere(['audit', 'verify-archive', join(folder, 'absent'), folder])
  expect(code).toBe(1)
  expect(out).toBe(
    `  wrong  ${join(folder, 'absent')}: the file does not exist.\n  wrong  ${folder}: the file cannot be read (EISDIR).\n`,
  )
})

test('the retention job removes only archived entries, and only once', async () => {
  const { services } = service.app
  const before = await listAll()
  await removeOldEntries(services)
  await removeLater()
  expect(await listAll()).toEqual(before)

  await archive()
  await removeOldEntries(services)
  expect(await listAll()).toEqual(before)
  await createTeam(service, owner.session, 'Not archived')
  await removeLater()
  const left = await listAll()
  expect(left.map(({ sequence }) => sequence)).toEqual([before.length + 2, before.length + 1])
  await removeLater()
  expect(await listAll()).toEqual(left)
  expect((await verify()).ok).toBe(true)
})

test('nodes that remove entries concurrently report no broken chain, and record one removal', async () => {
  for (let round = 0; round < 20; round++) await createTeam(service, owner.session, `Team ${round}`)
  await archive()
  const { services } = service.app
  const errors: string[] = []
  const log = { ...services.log, error: (message: string) => void errors.push(message) }
  service.clock.offsetMs = (days + 2) * dayMs
  await Promise.all([1, 2, 3].map(() => removeOldEntries({ ...services, log })))
  service.clock.offsetMs = 0
  expect(errors).toEqual([])
  expect((await listAll()).map(({ action, entity }) => [action, entity.type])).toEqual([['DELETE', 'audit']])
  expect((await verify()).ok).toBe(true)
})

test('kill -9 at any step loses no entry: each is in the store or in an archive, and both verify', async () => {
  for (let count = 0; count < 12; count++) {
    await Promise.all(Array.from({ length: 100 }, () => project.ask('GET', `/secret/${keys[0]}`)))
  }
  const newest = async () => (await ask<AuditEntry[]>('?limit=1'))[0]?.sequence ?? 0
  const total = await newest()
  const hasFile = async (end: string) => (await readdir(folder)).some((name) => name.endsWith(end))
  const isMarked = (text: string) => async () => (await raw.query(text, [mainId])).length > 0
  const moments = [
    () => hasFile('.part'),
    () => hasFile('.ndjson'),
    isMarked(`select 1 from audit_mark where chain_id = ? and kind = 'archive'`),
    isMarked(`select 1 from audit_mark where chain_id = ? and kind = 'cut'`),
    isMarked(`select 1 from audit_mark where chain_id = ? and kind = 'cut' and sequence > 600`),
  ]
  const args = ['audit', 'archive', '--to', folder, '--workspace', 'main', '--before', tomorrow()]
  for (const isReached of moments) {
    const program = startProgram(args, service.settings)
    await until(
      async () => program.hasEnded() || (await isReached()) || undefined,
      60_000,
      'the step to kill at is reached',
    )
    program.kill('SIGKILL')
    await program.ended
    expect(await verify()).toMatchObject({ ok: true })
    const kept = (await service.call('GET', '/v1/workspace/main/audit?format=ndjson', { token: owner.session })).text
    const files = await listFiles()
    for (const file of files) expect((await runHere(['audit', 'verify-archive', file])).code).toBe(0)
    const archived = (await Promise.all(files.map(entriesOf))).flat().map(({ sequence }) => sequence)
    const stored = kept.trimEnd().split('\n')
    const all = new Set([...archived, ...stored.map((line): number => JSON.parse(line).sequence)])
    expect([...all].sort((a, b) => a - b)).toEqual(Array.from({ length: await newest() }, (_, index) => index + 1))
  }
  expect((await archive('--before', tomorrow())).code).toBe(0)
  expect((await verify()).entries).toBeLessThan(10)
  expect(await newest()).toBeLessThan(total + 10)
})

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
    await archive('--before', tomorrow())
    await readTwice()
    await raw.restoring(['audit_mark'], async () => {
      await raw.query(statement)
      expect((await verify()).ok).toBe(false)
    })
    expect((await verify()).ok).toBe(true)
  })

  test('missing entries after the cut and restored entries before it are detected', async () => {
    const [first] = await raw.query('select * from audit_entry where chain_id = ? and sequence = 1', [mainId])
    await archive('--before', tomorrow())
    await readTwice()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query('delete from audit_entry where chain_id = ?', [mainId])
      expect((await verify()).ok).toBe(false)
    })
    await raw.restoring(['audit_entry'], async () => {
      const columns = Object.keys(first ?? {})
      await raw.query(
        `insert into audit_entry (${columns}) values (${columns.map(() => '?')})`,
        Object.values(first ?? {}),
      )
      expect((await verify()).ok).toBe(false)
    })
    expect((await verify()).ok).toBe(true)
  })

  test('a broken chain is neither archived nor cut; other chains are', async () => {
    const before = await listAll()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query(`update audit_entry set actor_name = 'somebody else' where chain_id = ? and sequence = 2`, [
        mainId,
      ])
      const { code, out } = await archive('--before', tomorrow())
      expect(code).toBe(1)
      expect(out).toContain('main: The audit trail is broken at entry 2')
      expect(out).toContain('ok     system')
      expect(await listFiles()).toEqual([])
    })
    expect(await listAll()).toEqual(before)
  })

  test('entries that were changed after they were archived are not removed', async () => {
    await archive()
    const before = await listAll()
    await raw.restoring(['audit_entry'], async () => {
      await raw.query(`update audit_entry set ip = 'elsewhere' where chain_id = ? and sequence = 2`, [mainId])
      await removeLater()
    })
    expect(await listAll()).toEqual(before)
    expect(service.logs.join('')).toContain('archived audit entries could not be removed')
  })

  test('an archive mark without a valid signature removes nothing', async () => {
    const before = await listAll()
    await archive('--workspace', 'main', '--before', '2000-01-01')
    await raw.query(
      `insert into audit_mark (chain_id, kind, sequence, hash, at, signature, key_id)
       select chain_id, 'archive', sequence, hash, 1, signature, key_id from audit_head where chain_id = ?`,
      [mainId],
    )
    await removeLater()
    expect(await listAll()).toEqual(before)
    await archive()
    expect(await entriesOf((await listFiles())[0] ?? '')).toEqual(before.reverse())
  })

  test('every change to an archive is detected', async () => {
    await archive()
    const [file = ''] = await listFiles()
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
