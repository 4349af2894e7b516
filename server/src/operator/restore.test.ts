/** Restoring a backup: into either engine, what a return to the past ends, and what is refused. */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDatabase, createToken, type Database, openService } from '../../../test/harness.ts'
import { readers } from '../../../test/share.ts'
import { type SyncWorld, setUpSync, startSyncWorld } from '../../../test/sync.ts'
import { fakeHeroku } from '../../../test/vendor/fake/heroku.ts'
import { systemChain } from '../domain/audit/event.ts'
import { flushUsage } from '../jobs/usage.ts'
import { heroku } from '../providers/heroku.ts'
import { sql } from '../store/engine/sql.ts'
import { steps } from '../store/migrate.ts'

let world: SyncWorld & { stop(): Promise<void> }
let file: string
let masterKey: string
let share: string
/** Made before the backup: stays, is revoked afterwards, is rotated afterwards. */
const tokens: Record<'kept' | 'revoked' | 'rotated', string> = { kept: '', revoked: '', rotated: '' }
const targets: Database[] = []

beforeAll(async () => {
  world = await startSyncWorld(heroku, fakeHeroku())
  const { service, owner, project } = world
  await project.set('development', { ALPHA: 'one', BETA: 'two' })
  await setUpSync(world)
  const made = await project.must<{ token: string }>('POST', '/secret-share', {
    content: 'shared',
    expiresIn: 3_600,
  })
  share = made.token
  const ids: Record<string, string> = {}
  for (const name of ['kept', 'revoked', 'rotated'] as const) {
    const issued = await createToken(service, owner.session, { name })
    tokens[name] = issued.token
    ids[name] = issued.id
  }
  await flushUsage(service.app.services)
  file = join(service.dataDir, 'restore.backup')
  expect(await run(service.settings, 'backup', file)).toMatchObject({ code: 0 })
  masterKey = await readFile(join(service.dataDir, 'master.key'), 'utf8')
  // All of this is unknown to the backup.
  const root = '/v1/workspace/main/tokens'
  expect((await service.call('DELETE', `${root}/${ids.revoked}`, { token: owner.session })).status).toBe(200)
  expect((await service.call('POST', `${root}/${ids.rotated}/rotate`, { token: owner.session, body: {} })).status).toBe(
    200,
  )
  await createToken(service, owner.session, { name: 'made since' })
  const workspace = await service.call('POST', '/v1/workspace', {
    token: owner.session,
    body: { name: 'Later', slug: 'later' },
  })
  expect(workspace.status).toBe(201)
  await createToken(service, owner.session, { name: 'of a later workspace' }, 'later')
  await flushUsage(service.app.services)
})
afterAll(async () => {
  for (const target of targets) await target.drop()
  await world.stop()
})

const run = (settings: Record<string, string>, ...args: string[]) => runHere(args, settings)
const digestIn = (text: string) => /digest ([0-9a-f]{64})/.exec(text)?.[1]

/** An empty store on the engine under test, with the master key of the backup. */
async function makeTarget(key = masterKey): Promise<Database> {
  const target = await createDatabase()
  targets.push(target)
  await writeFile(join(target.dataDir, 'master.key'), key, { mode: 0o600 })
  return target
}

async function makeFolder(): Promise<Record<string, string>> {
  const folder = join(world.service.dataDir, randomBytes(6).toString('hex'))
  await mkdir(folder)
  await writeFile(join(folder, 'master.key'), masterKey, { mode: 0o600 })
  return { COFFER_DATA_DIR: folder }
}

test('moves between the engines and back with the same digest, and everything stays as it is', async () => {
  const backUp = async (settings: Record<string, string>) => {
    const name = join(world.service.dataDir, `${randomBytes(6).toString('hex')}.backup`)
    const { code, out, err } = await run(settings, 'backup', name)
    expect(code, out + err).toBe(0)
    return { name, digest: digestIn(out) }
  }
  const first = await backUp(world.service.settings)
  expect(first.digest).toBeDefined()
  let last = first
  let settings = world.service.settings
  for (const make of [makeFolder, async () => (await makeTarget()).settings, makeFolder]) {
    settings = await make()
    const { code, out, err } = await run(settings, 'restore', '--move', last.name)
    expect(code, out + err).toBe(0)
    expect(out).toContain('Nothing else was changed.')
    expect(digestIn(out)).toBe(first.digest)
    last = await backUp(settings)
    expect(last.digest).toBe(first.digest)
  }
  expect((await run(settings, 'doctor')).out).not.toContain('wrong')
  const moved = await openService({ ...settings, COFFER_SYNC: 'off' }, settings.COFFER_DATA_DIR ?? '')
  const { session } = world.owner
  const state = await moved.call<{ id: string }[]>('GET', `${world.project.root}/sync`, { token: session })
  expect(state.body).toMatchObject([{ state: 'active' }])
  const opened = await readers(moved).view(share)
  expect(opened.status).toBe(200)
  await moved.stop()
})

test('a restore ends sessions and shares, pauses syncs, begins a generation, and lists tokens for review', async () => {
  const target = await makeTarget()
  const { code, out, err } = await run(target.settings, 'restore', file)
  expect(code, out + err).toBe(0)
  expect(out).toContain('Ended 1 sessions and 1 shares, paused 1 syncs, revoked 0 tokens.')
  for (const name of ['kept', 'revoked', 'rotated']) {
    expect(out).toMatch(
      new RegExp(`token {2}main: "${name}" cof_\\S+… made \\S+, never used: valid at the time of the backup`),
    )
  }
  expect(out).not.toContain('made since')
  expect((await run(target.settings, 'doctor')).out).not.toContain('wrong')

  const restored = await openService({ ...target.settings, COFFER_SYNC: 'off' }, target.dataDir)
  expect((await restored.call('GET', '/v1/me', { token: world.owner.session })).status).toBe(401)
  expect((await readers(restored).view(share)).status).toBe(404)
  const syncs = await restored.call<object[]>('GET', `${world.project.root}/sync`, { token: tokens.kept })
  expect(syncs.body).toMatchObject([{ state: 'paused', nextRunAt: null }])
  const values = await restored.call<{ name: string }[]>(
    'GET',
    `${world.project.root}/secret?environmentId=development`,
    {
      token: tokens.kept,
    },
  )
  expect(values.body.map(({ name }) => name).sort()).toEqual(['ALPHA', 'BETA'])
  const { engine } = restored.app.services
  const entry = await engine.one(sql`
    select actor_type, action, entity_type, entity_name from audit_entry
    where chain_id = ${systemChain} order by sequence desc limit 1`)
  const expected = { actor_type: 'operator', action: 'UPDATE', entity_type: 'instance', entity_name: 'restore' }
  expect(entry).toMatchObject(expected)
  const instance = await engine.one<{ generation: string }>(sql`select generation from instance where id = 1`)
  expect(instance?.generation).toMatch(/^[0-9a-f-]{36}$/)
  await restored.stop()
})

test('--revoke-tokens revokes every token', async () => {
  const target = await makeTarget()
  const { out } = await run(target.settings, 'restore', '--revoke-tokens', file)
  expect(out).toContain('revoked 3 tokens.')
  expect(out.match(/: revoked by this restore\n/g)).toHaveLength(3)
  const restored = await openService(target.settings, target.dataDir)
  for (const token of Object.values(tokens)) expect((await restored.call('GET', '/v1/me', { token })).status).toBe(401)
  await restored.stop()
  expect((await run(target.settings, 'doctor')).out).not.toContain('wrong')
})

test('--since-store revokes what was revoked or rotated since, keeps the rest, and names what is lost', async () => {
  const target = await makeTarget()
  const { settings, dataDir } = world.service
  const { code, out, err } = await run(
    target.settings,
    'restore',
    '--since-store',
    settings.COFFER_DATABASE_URL ?? dataDir,
    file,
  )
  expect(code, out + err).toBe(0)
  expect(out).toMatch(/"kept" .*: valid at the time of the backup/)
  expect(out).toMatch(/"revoked" .*: revoked by this restore/)
  expect(out).toMatch(/"rotated" .*: revoked by this restore/)
  expect(out).toMatch(/"made since" .*: made since the backup, and lost/)
  expect(out).toMatch(/later: "of a later workspace" .*: made since the backup, and lost/)
  const restored = await openService(target.settings, target.dataDir)
  expect((await restored.call('GET', '/v1/me', { token: tokens.kept })).status).toBe(200)
  expect((await restored.call('GET', '/v1/me', { token: tokens.revoked })).status).toBe(401)
  expect((await restored.call('GET', '/v1/me', { token: tokens.rotated })).status).toBe(401)
  await restored.stop()
})

test('a store that is not empty is refused, and stays as it is', async () => {
  const { settings } = world.service
  // Not the whole text: it also tells how much of the disk is free.
  const trails = async () => (await run(settings, 'doctor')).out.match(/^.*audit trail.*$/gm)
  const before = await trails()
  expect(before).not.toBeNull()
  const { code, err } = await run(settings, 'restore', file)
  expect(code).toBe(1)
  expect(err).toContain('The store is not empty: restore into an empty one.')
  expect(await trails()).toEqual(before)
  expect(await world.project.state('development')).toEqual({ ALPHA: 'one', BETA: 'two' })
})

test.each([
  ['another key', () => randomBytes(32).toString('base64')],
  ['the same key with one bit flipped', () => flipFirst(Buffer.from(masterKey.trim(), 'base64')).toString('base64')],
])('a wrong master key is refused: %s', async (_what, make) => {
  const target = await makeTarget(make())
  const { code, err } = await run(target.settings, 'restore', file)
  expect(code).toBe(1)
  expect(err).toBe(
    'The master key does not open this backup: use the key that its store had. If it is that key, the file is damaged.\n',
  )
  const verified = await run(target.settings, 'backup', 'verify', file)
  expect(verified.code).toBe(1)
  expect(verified.out).toContain('The master key does not open this backup')
})

function flipFirst(bytes: Buffer): Buffer {
  bytes.writeUInt8(bytes.readUInt8(0) ^ 1, 0)
  return bytes
}

test('a damaged file is refused before anything is restored', async () => {
  const target = await makeTarget()
  const bytes = await readFile(file)
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
  const damaged = join(world.service.dataDir, 'damaged.backup')
  await writeFile(damaged, bytes)
  const { code, err } = await run(target.settings, 'restore', damaged)
  expect(code).toBe(1)
  expect(err).toMatch(/^The backup is damaged: frame \d+ was changed or is not in its place\./)
  // Still empty: the good file is accepted.
  expect((await run(target.settings, 'restore', file)).code).toBe(0)
})

test('a backup of a newer version is refused with that version', async () => {
  const target = await makeTarget()
  const bytes = await readFile(file)
  const newer = join(world.service.dataDir, 'newer.backup')
  const step = `"schemaStep":${steps.length}`
  expect(bytes.includes(step)).toBe(true)
  await writeFile(
    newer,
    bytes.fill('9', bytes.indexOf(step) + '"schemaStep":'.length, bytes.indexOf(step) + step.length),
  )
  const { code, err } = await run(target.settings, 'restore', newer)
  expect(code).toBe(1)
  expect(err).toMatch(
    /^This backup is of Coffer \S+ \(step \d+, this version knows \d+\): restore it with that version/,
  )
})

test('the audit trail of a workspace continues after the restore', async () => {
  const target = await makeTarget()
  expect((await run(target.settings, 'restore', file)).code).toBe(0)
  const restored = await openService(target.settings, target.dataDir)
  const call = <Body>(path: string) => restored.call<Body>('GET', `/v1/workspace/main${path}`, { token: tokens.kept })
  expect((await call<AuditEntry[]>('/audit')).status).toBe(200)
  expect((await call<{ ok: boolean }>('/audit/verify')).body).toMatchObject({ ok: true })
  await restored.stop()
})

test('a backup of an older version is restored at its step and brought up to date', async () => {
  const fixture = join(import.meta.dirname, '../../../test/fixture/backup')
  const old = JSON.parse(await readFile(join(fixture, 'old.json'), 'utf8'))
  expect(old.steps).toBeLessThan(steps.length)
  const target = await makeTarget(old.masterKey)
  const verified = await run(target.settings, 'backup', 'verify', join(fixture, 'old.backup'))
  expect(verified.out).toContain(old.digest)
  expect(verified.code).toBe(0)
  const { code, err } = await run(target.settings, 'restore', join(fixture, 'old.backup'))
  expect(code, err).toBe(0)
  const restored = await openService(target.settings, target.dataDir)
  const path = '/v1/workspace/main/project/kept/secret/ALPHA?environmentId=development'
  expect((await restored.call('GET', path, { token: old.token })).text).toContain('"value of before"')
  await restored.stop()
})
