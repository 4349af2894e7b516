/** Archives of the audit trail, and the removal of archived entries. */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditEntry } from '@coffer/contract/audit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Audited, days, entriesOf, keys, linesOf, startAudited, tomorrow } from '../../../test/audited.ts'
import { runHere } from '../../../test/command.ts'
import { createProject, createTeam, type TestService, type TestUser } from '../../../test/harness.ts'
import type { RawDatabase } from '../../../test/raw-database.ts'
import type { SecretProject } from '../../../test/secret-project.ts'
import { startProgram } from '../../../test/start-server.ts'
import { until } from '../../../test/wait.ts'
import { systemChain } from '../domain/audit/event.ts'
import { dayMs } from '../domain/time.ts'
import { removeOldEntries } from '../jobs/audit.ts'

let audited: Audited
let service: TestService
let owner: TestUser
let raw: RawDatabase
let project: SecretProject
let folder: string
let mainId: string

beforeEach(async () => {
  audited = await startAudited()
  ;({ service, owner, raw, project, folder, mainId } = audited)
})
afterEach(() => audited.stop())

const countLists = async () => Number((await raw.query('select count(*) as n from audit_key_list'))[0]?.n)

test('archiving writes entries in full, removes them with their key lists, and the rest of the chain still verifies', async () => {
  const before = (await audited.listAll()).reverse()
  expect(await countLists()).toBe(1)
  expect((await audited.archive('--before', tomorrow())).code).toBe(0)
  const [file = ''] = await audited.listFiles()
  expect(await entriesOf(file)).toEqual(before)
  expect(await readFile(file, 'utf8')).not.toContain('value-of-the-secret')
  const left = await audited.listAll()
  expect(left).toMatchObject([
    {
      sequence: before.length + 1,
      action: 'DELETE',
      entity: { type: 'audit', id: mainId },
      actor: { type: 'operator' },
    },
  ])
  expect(await countLists()).toBe(0)
  expect(await audited.verify()).toEqual({ ok: true, entries: 1, head: left[0]?.hash })
  expect((await runHere(['doctor'], service.settings)).out).not.toContain('wrong')

  // The service had cached that the list is stored.
  await audited.readTwice()
  expect(await countLists()).toBe(1)
  expect((await audited.verify()).ok).toBe(true)
  expect((await audited.ask<AuditEntry[]>(`?q=${keys[7]}`)).length).toBe(2)
})

test('searches in a long key list are archived in full, and the list stays while an entry refers to it', async () => {
  const names = Array.from({ length: 90 }, (_, index) => `ANOTHER_KEY_${index}`.padEnd(240, '_')).sort()
  await project.set('staging', Object.fromEntries(names.map((name) => [name, 'another'])))
  const search = (part: string) => project.must('GET', `/secret?environmentId=staging&q=${part}`)
  const matching = (part: string) => names.filter((name) => name.includes(part))
  await search('KEY_1')
  await search('KEY')
  const before = (await audited.listAll()).reverse()
  expect(before.slice(-2).map(({ after }) => after?.keys)).toEqual([matching('KEY_1'), matching('KEY')])
  const soon = new Date(Date.now() + 60_000).toISOString()
  service.clock.offsetMs = 120_000
  await search('KEY_3')
  service.clock.offsetMs = 0
  await audited.archive('--before', soon)
  const [file = ''] = await audited.listFiles()
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

  const left = await audited.listAll()
  expect(left.map(({ action }) => action)).toEqual(['DELETE', 'VIEW'])
  expect(left[1]?.after?.keys).toEqual(matching('KEY_3'))
  expect(await audited.verify()).toMatchObject({ ok: true, entries: 2 })
  await audited.archive('--before', tomorrow())
  expect(await countLists()).toBe(0)
  await search('KEY_1')
  expect((await audited.listAll())[0]?.after?.keys).toEqual(matching('KEY_1'))
  expect((await audited.verify()).ok).toBe(true)
})

test('each archive continues the previous one, and is verified without the service', async () => {
  await audited.archive('--before', tomorrow())
  await audited.readTwice()
  await audited.archive()
  await createTeam(service, owner.session, 'Another')
  await audited.archive()
  const files = await audited.listFiles()
  expect(files).toHaveLength(3)
  expect((await Promise.all(files.map(entriesOf))).flat().map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: (await audited.listAll())[0]?.sequence ?? 0 }, (_, index) => index + 1),
  )
  const checked = await runHere(['audit', 'verify-archive', ...files])
  expect(checked).toEqual({ code: 0, err: '', out: expect.stringMatching(/^( {2}ok .*signed by the key.*\n){3}$/) })
  const gap = await runHere(['audit', 'verify-archive', files[0] ?? '', files[2] ?? ''])
  expect(gap.code).toBe(1)
  expect(gap.out).toContain('does not continue the previous file')
  // The order of the files makes no difference, and those of another chain in between hide no gap.
  expect((await runHere(['audit', 'verify-archive', ...files.toReversed()])).out).toBe(checked.out)
  const others = (await readdir(folder)).filter((name) => name.startsWith(`audit-${systemChain}-`))
  const between = others.slice(0, 1).map((name) => join(folder, name))
  expect(between).toHaveLength(1)
  const hidden = await runHere(['audit', 'verify-archive', files[0] ?? '', ...between, files[2] ?? ''])
  expect(hidden).toMatchObject({ code: 1, out: expect.stringContaining('does not continue the previous file') })
  const nothing = '  ok     there is nothing to archive\n'
  expect(await audited.archive()).toMatchObject({ code: 0, out: nothing })
  expect(await audited.listFiles()).toEqual(files)
})

test('a Unicode line separator in a message does not split the line of an archive', async () => {
  const project = await createProject(service, owner.session, 'separators')
  const sent = {
    environments: [project.environments[0]?.id],
    secrets: [{ key: 'KEY', value: 'value' }],
    message: 'One\u2028two\u2029three\u0085four',
  }
  const path = '/v1/workspace/main/project/separators/secret'
  const written = await service.call('POST', path, { token: owner.session, body: sent })
  expect(written.status, written.text).toBe(201)
  await audited.archive()
  const checked = await runHere(['audit', 'verify-archive', ...(await audited.listFiles())])
  expect(checked).toEqual({ code: 0, err: '', out: expect.stringMatching(/^ {2}ok .*\n$/) })
})

test('archiving one workspace leaves the others unchanged; an unknown one is refused', async () => {
  await audited.archive('--workspace', 'main', '--before', tomorrow())
  expect(await readdir(folder)).toHaveLength(1)
  const { code, err } = await runHere(['audit', 'archive', '--to', folder, '--workspace', 'none'], service.settings)
  expect({ code, err }).toEqual({ code: 1, err: 'There is no workspace "none".\n' })
})

test('only entries before the date are archived and removed', async () => {
  const before = await audited.listAll()
  await audited.archive('--before', new Date(Date.parse(before[0]?.at ?? '') - dayMs).toISOString())
  expect(await readdir(folder)).toEqual([])
  expect(await audited.listAll()).toEqual(before)
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
  const before = await audited.listAll()
  const args = ['audit', 'archive', '--to', join(folder, 'absent'), '--before', tomorrow()]
  const { code, err } = await runHere(args, service.settings)
  expect(code).toBe(1)
  expect(err).toBe(`--to: the folder ${join(folder, 'absent')} does not exist.\n`)
  expect(await audited.listAll()).toEqual(before)
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
  const before = await audited.listAll()
  await removeOldEntries(services)
  await audited.removeLater()
  expect(await audited.listAll()).toEqual(before)

  await audited.archive()
  await removeOldEntries(services)
  expect(await audited.listAll()).toEqual(before)
  await createTeam(service, owner.session, 'Not archived')
  await audited.removeLater()
  const left = await audited.listAll()
  expect(left.map(({ sequence }) => sequence)).toEqual([before.length + 2, before.length + 1])
  await audited.removeLater()
  expect(await audited.listAll()).toEqual(left)
  expect((await audited.verify()).ok).toBe(true)
})

test('nodes that remove entries concurrently report no broken chain, and record one removal', async () => {
  for (let round = 0; round < 20; round++) await createTeam(service, owner.session, `Team ${round}`)
  await audited.archive()
  const { services } = service.app
  const errors: string[] = []
  const log = { ...services.log, error: (message: string) => void errors.push(message) }
  service.clock.offsetMs = (days + 2) * dayMs
  await Promise.all([1, 2, 3].map(() => removeOldEntries({ ...services, log })))
  service.clock.offsetMs = 0
  expect(errors).toEqual([])
  expect((await audited.listAll()).map(({ action, entity }) => [action, entity.type])).toEqual([['DELETE', 'audit']])
  expect((await audited.verify()).ok).toBe(true)
})

test('kill -9 at any step loses no entry: each is in the store or in an archive, and both verify', async () => {
  for (let count = 0; count < 12; count++) {
    await Promise.all(Array.from({ length: 100 }, () => project.ask('GET', `/secret/${keys[0]}`)))
  }
  const newest = async () => (await audited.ask<AuditEntry[]>('?limit=1'))[0]?.sequence ?? 0
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
      120_000,
      'the step to kill at is reached',
    )
    program.kill('SIGKILL')
    await program.ended
    expect(await audited.verify()).toMatchObject({ ok: true })
    const kept = (await service.call('GET', '/v1/workspace/main/audit?format=ndjson', { token: owner.session })).text
    const files = await audited.listFiles()
    for (const file of files) expect((await runHere(['audit', 'verify-archive', file])).code).toBe(0)
    const archived = (await Promise.all(files.map(entriesOf))).flat().map(({ sequence }) => sequence)
    const stored = kept.trimEnd().split('\n')
    const all = new Set([...archived, ...stored.map((line): number => JSON.parse(line).sequence)])
    expect([...all].sort((a, b) => a - b)).toEqual(Array.from({ length: await newest() }, (_, index) => index + 1))
  }
  expect((await audited.archive('--before', tomorrow())).code).toBe(0)
  expect((await audited.verify()).entries).toBeLessThan(10)
  expect(await newest()).toBeLessThan(total + 10)
})
