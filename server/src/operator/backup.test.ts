/** Backups that prove themselves: what is in them, what verifies, and what is refused. */
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import {
  createDatabase,
  createToken,
  engine,
  registerOwner,
  startService,
  type TestService,
} from '../../../test/harness.ts'
import { startS3 } from '../../../test/s3-server.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { tamper } from '../../../test/store.ts'
import { backupTime } from '../domain/backup/target/name.ts'
import { flushUsage } from '../jobs/usage.ts'
import { sql } from '../store/engine/sql.ts'

let service: TestService
let made = 0

beforeAll(async () => {
  service = await startService()
  const owner = await registerOwner(service)
  await createToken(service, owner.session)
  const project = await createSecretProject(service, owner.session)
  for (const environment of ['development', 'staging']) {
    await project.set(
      environment,
      Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`KEY_${at}`, `value ${at}`])),
    )
  }
  // A later flush would change the rows between two backups.
  await flushUsage(service.app.services)
})
afterAll(() => service.stop())

const newFile = () => join(service.dataDir, `${++made}.backup`)
const run = (...args: string[]) => runHere(args, service.settings)

async function backUp(): Promise<string> {
  const file = newFile()
  const { code, out, err } = await run('backup', file)
  expect(code, out + err).toBe(0)
  expect(out).toContain(`Wrote and verified ${file}`)
  return file
}

test('a backup is written while the service runs, verified, and leaves nothing else behind', async () => {
  const before = await readdir(service.dataDir)
  const file = await backUp()
  const after = await readdir(service.dataDir)
  expect(after.filter((name) => !before.includes(name))).toEqual([file.split('/').at(-1)])
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const verified = await run('backup', 'verify', file)
  expect(verified.out).toMatch(/^ {2}ok {5}.*: \d+ rows, \d+ bytes, of .*, by Coffer .*, digest [0-9a-f]{64}\n$/m)
  expect(verified.code).toBe(0)
})

test('equal contents have equal digests, and a change gives another', async () => {
  const digestOf = async () => /digest ([0-9a-f]{64})/.exec((await run('backup', newFile())).out)?.[1]
  const first = await digestOf()
  expect(first).toBeDefined()
  expect(await digestOf()).toBe(first)
  await registerSomething()
  expect(await digestOf()).not.toBe(first)
})

async function registerSomething(): Promise<void> {
  const { status } = await service.call('POST', '/v1/auth/login', {
    body: { email: 'owner@example.com', password: 'a wrong password' },
  })
  expect(status).toBe(401)
}

async function expectEveryRow(): Promise<void> {
  const digestOf = ({ out }: { out: string }) => /digest ([0-9a-f]{64})/.exec(out)?.[1]
  const before = digestOf(await run('backup', newFile()))
  expect(before).toBeDefined()
  const connectionString = service.settings.COFFER_DATABASE_URL
  const [migration, watcher] = [new pg.Client({ connectionString }), new pg.Client({ connectionString })]
  await Promise.all([migration.connect(), watcher.connect()])
  try {
    await migration.query('begin')
    await migration.query(`alter table secret_version alter column message type text using message || ''`)
    const backup = run('backup', newFile())
    const waits = () =>
      watcher.query(`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%secret_version%'`)
    await expect.poll(async () => (await waits()).rowCount).toBeGreaterThan(0)
    await migration.query('commit')
    expect(digestOf(await backup)).toBe(before)
  } finally {
    await Promise.all([migration.end(), watcher.end()])
  }
}

// SQLite is copied in one step.
if (engine === 'postgres')
  test('a backup that overlaps a migration has every row of the tables that it rewrites', expectEveryRow)

test('an existing file is not overwritten', async () => {
  const file = newFile()
  await writeFile(file, 'mine')
  const refused = await run('backup', file)
  expect(refused.code).toBe(1)
  expect(refused.err).toBe(`${file} exists already: choose another name, or move it away.\n`)
  expect(await readFile(file, 'utf8')).toBe('mine')
})

test('a name that is empty, and a folder that does not exist, are refused before anything is written', async () => {
  const missing = join(dirname(newFile()), 'missing')
  // Other tests may write other files into this folder meanwhile.
  const written = async () => (await readdir(process.cwd())).filter((name) => /backup|\.part$/.test(name))
  const before = await written()
  for (const [args, message] of [
    [['backup', ''], '"backup" takes one file or s3://…, --no-verify and --scratch <folder>.'],
    [['backup', 'verify', ''], '"backup verify" takes one file or s3://…, and --scratch <folder>.'],
    [['restore', ''], 'takes'],
    [['backup', join(missing, 'new.backup')], `The folder ${missing} does not exist: create it first.`],
    [['backup', 'new.backup', '--scratch', missing], `--scratch: there is no folder ${missing}.`],
  ] as const) {
    const { code, err } = await runHere(args, service.settings)
    expect(code).toBe(1)
    expect(err).toContain(message)
  }
  expect(await written()).toEqual(before)
})

test.each([
  [['backup', 'S3://Backups/coffer'], 'The target must be a folder or s3://bucket/prefix'],
  [['backup', 'gs://backups/coffer'], 'The target must be a folder or s3://bucket/prefix'],
  [['backup', 'verify', 's3://backups'], 's3://backups names no backup: add the name of its file'],
  [['restore', 's3://backups/coffer/'], 's3://backups/coffer/ names no backup: add the name of its file'],
  [['backup', 'verify', '.'], 'folder: name the file of a backup.'],
  [['restore', '.'], '. is a folder: name the file of a backup.'],
])('a place that cannot be meant is explained: %j', async (args, message) => {
  const { code, out, err } = await run(...args)
  expect([code, out + err]).toEqual([1, expect.stringContaining(message)])
})

test('a backup that does not verify leaves no file', async () => {
  const other = await startService()
  await registerOwner(other)
  await tamper(other.settings, (db) => db.count(sql`update member set role = 'viewer'`))
  const folder = join(other.dataDir, 'folder')
  await mkdir(folder)
  const { code, out, err } = await runHere(['backup', folder], other.settings)
  expect([code, out]).toEqual([1, expect.stringContaining('  wrong  Changed outside of Coffer: 1 memberships.')])
  expect(err).toMatch(
    /^The backup could not be verified, so it was not stored: Changed outside of Coffer: 1 memberships\./,
  )
  expect(await readdir(folder)).toEqual([])
  await other.stop()
})

test('a backup that was not verified is not called one', async () => {
  const file = newFile()
  const { code, out } = await run('backup', '--no-verify', file)
  expect(code).toBe(0)
  expect(out).toContain('It is not verified, so do not rely on it')
  expect((await run('backup', 'verify', file)).code).toBe(0)
})

test('a folder gets a new name each time, and a bucket gets the verified file, which verifies and restores from there', async () => {
  const folder = join(service.dataDir, 'folder')
  await mkdir(folder)
  for (let count = 1; count <= 2; count++) {
    expect((await run('backup', folder)).code).toBe(0)
    expect((await readdir(folder)).filter((name) => backupTime(name) !== undefined)).toHaveLength(count)
  }
  const backups = (await readdir(folder)).filter((name) => name.endsWith('.backup')).sort()
  expect((await readdir(folder)).sort()).toEqual(backups.flatMap((name) => [name, `${name}.verified`]))
  expect((await run('backup', '--no-verify', folder)).code).toBe(0)
  expect((await readdir(folder)).filter((name) => name.endsWith('.verified'))).toHaveLength(2)
  const s3 = await startS3()
  const settings = { ...service.settings, ...s3.settings }
  const before = await readdir(service.dataDir)
  const { code, out, err } = await runHere(['backup', 's3://backups/coffer'], settings)
  expect(code, out + err).toBe(0)
  const [, place = ''] = /^Wrote and verified (\S+): /m.exec(out) ?? []
  expect(place).toMatch(/^s3:\/\/backups\/coffer\/coffer-\d{8}T\d{6}Z-[a-z0-9]{6}\.backup$/)
  const key = place.slice('s3://backups/'.length)
  expect([...s3.objects.keys()]).toEqual([key, `${key}.verified`])
  expect((await runHere(['backup', 'verify', place], settings)).out).toContain(`  ok     ${place}: `)
  const missing = await runHere(
    ['backup', 'verify', place.replace(/-[a-z0-9]{6}\.backup$/, '-000000.backup')],
    settings,
  )
  expect(missing.code).toBe(1)
  const restored = await createDatabase()
  await copyFile(join(service.dataDir, 'master.key'), join(restored.dataDir, 'master.key'))
  const target = { ...restored.settings, ...s3.settings }
  expect((await runHere(['restore', '--move', place], target)).code).toBe(0)
  expect(await readdir(service.dataDir)).toEqual(before)
  expect(s3.violations).toEqual([])
  await s3.close()
  await restored.drop()
})

test('a backup that its bucket does not take is not called stored, and its verified file is kept and named', async () => {
  const s3 = await startS3()
  const settings = { ...service.settings, ...s3.settings, AWS_SECRET_ACCESS_KEY: 'a wrong key' }
  const { code, out, err } = await runHere(['backup', 's3://backups/coffer', '--scratch', service.dataDir], settings)
  expect(code).toBe(1)
  expect(out).not.toContain('Wrote')
  const [, kept = ''] = /^The .*\. The backup was made, and its file is (\S+)\.\n$/.exec(err) ?? []
  expect(kept, err).toContain(service.dataDir)
  expect((await run('backup', 'verify', kept)).code).toBe(0)
  expect(s3.objects.size).toBe(0)
  await s3.close()
})
