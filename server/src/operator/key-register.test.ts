/** The database alone does not decide which keys are in use: a changed row does not bring back a rotated key. */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  copyDatabase,
  createDatabase,
  createToken,
  type Database,
  openService,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { openRaw, type RawDatabase, type RawRow } from '../../../test/raw-database.ts'
import { openServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { associatedData, open, seal } from '../crypto/envelope.ts'
import { masterWrapKey } from '../crypto/keyring.ts'
import { asOperator } from '../domain/context.ts'
import { rotateRoot } from '../domain/workspace/key.ts'
import { createLog } from '../log.ts'
import { runDoctor } from './doctor/doctor.ts'

const sentence =
  'The keys in this database were changed outside of Coffer: restore root_key, signing_key and instance from a backup.'

let database: Database
let service: TestService
let raw: RawDatabase
let owner: TestUser
/** Not used after the rotation, so its hash keeps the old root as a retired one. */
let unused: string

const bytesOf = (cell: RawRow[string] | undefined) => Buffer.from(cell as Uint8Array)
const rotate = ({ app }: TestService) => rotateRoot(asOperator(app.services), () => undefined, 0)
const start = () => openService(database.settings, database.dataDir)
const status = async (token: string) => (await service.call('GET', '/v1/me', { token })).status

async function one(text: string): Promise<RawRow> {
  const [row] = await raw.query(text)
  if (!row) throw new Error(`no row: ${text}`)
  return row
}

async function insert(table: string, row: RawRow): Promise<void> {
  const names = Object.keys(row)
  await raw.query(`insert into ${table} (${names}) values (${names.map(() => '?')})`, Object.values(row))
}

async function expectNoStart(): Promise<void> {
  await expect(start()).rejects.toThrow(sentence)
}

beforeEach(async () => {
  database = await createDatabase({ hasSchema: true })
  service = await start()
  raw = await openRaw(service)
  owner = await registerOwner(service)
  unused = (await createToken(service, owner.session)).token
})

afterEach(async () => {
  await raw.close()
  await service.stop()
  await database.drop()
})

describe('after a rotation, startup is refused with', () => {
  const tables = ['root_key', 'signing_key', 'instance']
  const oldRoot = '(select id from root_key where is_active = 0)'
  const oldSigner = "(select min(id) from signing_key where purpose = 'jwt')"

  test.each<[string, readonly string[]]>([
    [
      'the old root active instead of the new one',
      [
        'update root_key set is_active = 2 where is_active = 1',
        'update root_key set is_active = 1 where is_active = 0',
        'update root_key set is_active = 0 where is_active = 2',
      ],
    ],
    ['no active root', ['update root_key set is_active = 0']],
    ['the active root removed', ['delete from root_key where is_active = 1']],
    ['all roots removed', ['delete from root_key']],
    ['a retired signing key active again', [`update signing_key set retired_at = null where id = ${oldSigner}`]],
    [
      'a later retirement of a signing key',
      [`update signing_key set retired_at = retired_at + 1 where id = ${oldSigner}`],
    ],
    ['an active signing key retired', ['update signing_key set retired_at = 1 where retired_at is null']],
    ['the active signing keys removed', ['delete from signing_key where retired_at is null']],
    ['no register', ['update instance set key_register = null where id = 1']],
    [
      'no register, and the old signing key active',
      [
        'update instance set key_register = null where id = 1',
        `update signing_key set retired_at = null where id = ${oldSigner}`,
      ],
    ],
    ['the row of the register removed', ['delete from instance']],
    ['an empty register', ["update instance set key_register = ''"]],
  ])('%s', async (_what, statements) => {
    await rotate(service)
    expect(await raw.query(`select id from root_key where id = ${oldRoot}`)).toHaveLength(1)
    await raw.restoring(tables, async () => {
      for (const statement of statements) await raw.query(statement)
      await expectNoStart()
      await expect(service.app.services.keys.reload()).rejects.toThrow('changed outside of Coffer')
    })
    await service.app.services.keys.reload()
    expect(await status(unused)).toBe(200)
  })

  test('any changed byte of the register', async () => {
    const { key_register: register } = await one('select key_register from instance where id = 1')
    await raw.restoring(['instance'], async () => {
      for (let at = 0; at < bytesOf(register).length; at++) {
        const changed = bytesOf(register)
        changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
        await raw.query('update instance set key_register = ?', [changed])
        await expect(service.app.services.keys.reload(), `byte ${at}`).rejects.toThrow('changed outside of Coffer')
      }
      await expectNoStart()
    })
  })

  test('the previous register, or previous rows beside the new ones', async () => {
    const before = await one('select key_register from instance where id = 1')
    const signer = await one("select * from signing_key where purpose = 'jwt'")
    await rotate(service)
    await raw.restoring(tables, async () => {
      await raw.query('update instance set key_register = ?', [bytesOf(before.key_register)])
      await expectNoStart()
    })
    await raw.restoring(tables, async () => {
      await raw.query('delete from signing_key where id = ?', [signer.id ?? null])
      await insert('signing_key', signer)
      await expectNoStart()
    })
  })

  test('a removed root inserted again', async () => {
    await rotate(service)
    const retired = await one('select * from root_key where is_active = 0')
    expect(await status(unused)).toBe(200)
    expect(await status(owner.session)).toBe(200)
    // The next rotation removes roots that are no longer needed.
    await rotate(service)
    expect(await raw.query('select id from root_key where id = ?', [retired.id ?? null])).toEqual([])
    await raw.restoring(['root_key'], async () => {
      await insert('root_key', retired)
      await expectNoStart()
    })
  })
})

test('a running service does not accept a retired signing key again', async () => {
  await rotate(service)
  service.clock.offsetMs = 3_600_000
  const before = await one("select id from signing_key where purpose = 'jwt' and retired_at is not null")
  await raw.restoring(['signing_key'], async () => {
    await raw.query('update signing_key set retired_at = null where id = ?', [before.id ?? null])
    await expect(service.app.services.keys.reload()).rejects.toThrow('changed outside of Coffer')
    expect(service.app.services.keys.findJwtSigner(String(before.id))).toBeUndefined()
  })
})

test('doctor reports changed key rows, and a rotation does not re-sign them', async () => {
  await rotate(service)
  const operator = await openServices(readConfig(service.settings), createLog('silent'), 'write')
  await raw.restoring(['signing_key'], async () => {
    await raw.query("update signing_key set retired_at = null where purpose = 'jwt'")
    const output: string[] = []
    expect(await runDoctor(service.settings, (text) => output.push(text))).toBe(1)
    expect(output.join('')).toContain(`wrong  store and keys: ${sentence}`)
    await expect(rotateRoot(asOperator(operator), () => undefined, 0)).rejects.toThrow('changed outside of Coffer')
    await expectNoStart()
  })
  await operator.engine.close()
})

describe('a store from a version without a register', () => {
  /** Converts the store to that version: no register, and roots wrapped in the old format. */
  async function setBack(): Promise<void> {
    const text = await readFile(join(database.dataDir, 'master.key'), 'utf8')
    const master = masterWrapKey(Buffer.from(text, 'base64'))
    for (const { id, wrapped } of await raw.query('select id, wrapped from root_key')) {
      const place = associatedData('root-key', String(id))
      const old = seal(master, 1, place, open(master, place, bytesOf(wrapped)))
      await raw.query('update root_key set wrapped = ? where id = ?', [old, id ?? null])
    }
    await raw.query('update instance set key_register = null where id = 1')
  }

  const isRegistered = async () => (await one('select key_register from instance where id = 1')).key_register !== null

  test('starts, and has a register from then on', async () => {
    await rotate(service)
    await setBack()
    const next = await start()
    await next.stop()
    expect(await isRegistered()).toBe(true)
    expect(await status(unused)).toBe(200)
    await raw.restoring(['instance'], async () => {
      await raw.query('update instance set key_register = null where id = 1')
      await expectNoStart()
    })
  })

  test('is read by doctor without a change, and can be rotated before the first start', async () => {
    await setBack()
    expect(await runDoctor(service.settings, () => 0)).toBe(0)
    expect(await isRegistered()).toBe(false)
    await rotate(service)
    expect(await isRegistered()).toBe(true)
    const next = await start()
    expect((await next.call('GET', '/v1/me', { token: unused })).status).toBe(200)
    await next.stop()
  })

  test('is left unchanged by a start with the wrong master key', async () => {
    await setBack()
    const wrong = { ...database.settings, COFFER_MASTER_KEY: randomBytes(32).toString('base64') }
    await expect(openService(wrong, database.dataDir)).rejects.toThrow('The master key does not match this database')
    expect(await isRegistered()).toBe(false)
    const next = await start()
    await next.stop()
    expect(await isRegistered()).toBe(true)
  })

  test('is registered once by two concurrent starts', async () => {
    await setBack()
    const nodes = await Promise.all([start(), start()])
    for (const node of nodes) expect((await node.call('GET', '/v1/me', { token: unused })).status).toBe(200)
    await Promise.all(nodes.map((node) => node.stop()))
  })
})

test('a backup that was restored as a whole starts', async () => {
  await raw.close()
  await service.stop()
  const copy = await copyDatabase(database)
  service = await start()
  raw = await openRaw(service)
  await rotate(service)
  const restored = await openService(copy.settings, copy.dataDir)
  expect((await restored.call('GET', '/v1/me', { token: unused })).status).toBe(200)
  await restored.stop()
  await copy.drop()
})
