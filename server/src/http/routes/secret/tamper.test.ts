/** A value that was changed in the database is an error in every request that decrypts it, and nothing overwrites it. */
import { exportFormats } from '@coffer/contract/secret-file'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  exchange,
  openService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { bytesOf, flip } from '../../../../../test/raw-database.ts'
import { createSecretTamper, environmentOf } from '../../../../../test/secret-tamper.ts'

const {
  start,
  stop,
  send,
  written,
  invalidateAll,
  one,
  change,
  sealedRows,
  read,
  valuesIn,
  expectIntegrity,
  tampering,
  target,
} = createSecretTamper()
let service: TestService
let owner: TestUser
let mallory: TestUser
let open: TestProject
let scopedToken: string

beforeAll(async () => {
  ;({ service, owner, mallory, open, scopedToken } = await start())
})
afterAll(stop)

type Probe = readonly [method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown]

/** Every request that decrypts the shared value of ONE in the first environment. */
const openers = (): Probe[] => {
  const at = '/v1/workspace/main/project/open'
  const [first, second] = [environmentOf(open, 0), environmentOf(open, 1)]
  return [
    ['GET', `${at}/secret`],
    ['GET', `${at}/secret?resolve=true`],
    ['GET', `${at}/secret?view=keys`],
    ['GET', `${at}/secret?environmentId=${first}&q=one`],
    ['GET', `${at}/secret/ONE`],
    ...exportFormats
      .filter((format) => format !== 'json')
      .map((format): Probe => ['GET', `${at}/secret/export?environmentId=${first}&format=${format}`]),
    ['GET', `${at}/secret/diff?from=${first}&to=${second}`],
    ['GET', `${at}/secret/diff?from=${second}&to=${first}&values=true`],
    ['PUT', `${at}/secret/ONE/value`, { environmentId: first, value: 'another' }],
    ['PUT', `${at}/secret/ONE`, { name: 'ONE', values: [{ environmentId: first, value: 'another' }] }],
    ['POST', `${at}/secret/batch`, { environmentId: first, operations: [{ op: 'set', key: 'ONE', value: 'another' }] }],
    [
      'POST',
      `${at}/secret`,
      { environments: [first], secrets: [{ key: 'ONE', value: 'another' }], mode: 'upsert', dryRun: true },
    ],
    ['POST', `${at}/environment/${second}/promote`, { from: first }],
    ['POST', `${at}/environment/${first}/promote`, { from: second, dryRun: true }],
  ]
}

/** Every request that decrypts the first version of ONE in the first environment. */
const pastOpeners = (): Probe[] => {
  const at = '/v1/workspace/main/project/open'
  const [first, second] = [environmentOf(open, 0), environmentOf(open, 1)]
  return [
    ['GET', `${at}/secret/ONE/version/1?environmentId=${first}`],
    ['POST', `${at}/secret/ONE/version/1/restore`, { environmentId: first }],
    ['POST', `${at}/environment/${first}/revision/1/restore`, {}],
    ['POST', `${at}/environment/${first}/revision/1/restore`, { dryRun: true }],
    ['GET', `${at}/secret/diff?from=${first}@1&to=${second}`],
    ['GET', `${at}/secret/diff?from=${first}&to=${first}@1&values=true`],
  ]
}

async function expectAllRefused(probes: readonly Probe[], what: string): Promise<void> {
  for (const [method, path, body] of probes) {
    invalidateAll()
    const answer = await service.call(method, path, { token: owner.session, body })
    expectIntegrity(answer, `${what}: ${method} ${path}`)
  }
}

test('untampered values are read as they were written', async () => {
  const rows = [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]
  expect(rows.length).toBeGreaterThan(15)
  const seen = new Set<string>()
  for (const row of rows) {
    const answer = await read(row)
    expect(answer.status, answer.text).toBe(200)
    for (const value of valuesIn(answer)) seen.add(value)
  }
  expect([...seen].sort()).toEqual([...written].sort())
})

describe('a tampered value is an error:', () => {
  test('a flipped bit in any byte of a current value', async () => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        for (const mask of [0x01, 0x80]) {
          await change('secret_value', row, { sealed: flip(row.sealed, at, mask) })
          invalidateAll()
          expectIntegrity(await read(row), `byte ${at}`)
        }
      }
    })
    expect((await read(row)).status).toBe(200)
  })

  test('a flipped bit in any byte of a version', async () => {
    const row = await target('secret_version', 1)
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        for (const mask of [0x01, 0x80]) {
          await change('secret_version', row, { sealed: flip(row.sealed, at, mask) })
          expectIntegrity(await read(row), `byte ${at}`)
        }
      }
    })
    expect((await read(row)).status).toBe(200)
  })

  test('a flipped bit in any byte of a personal value, and only for its owner', async () => {
    const row = (await sealedRows('secret_value')).find(({ owner_id }) => owner_id === mallory.id)
    if (!row) throw new Error('there is no personal value')
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        await change('secret_value', row, { sealed: flip(row.sealed, at, 0x10) })
        invalidateAll()
        expectIntegrity(await read(row), `byte ${at}`)
      }
      expect((await read({ ...row, owner_id: owner.id })).status).toBe(200)
    })
  })

  test('in every request that decrypts a current value, and nothing overwrites it', async () => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      await change('secret_value', row, { sealed: flip(row.sealed, 30, 0x10) })
      const before = [await sealedRows('secret_value'), await sealedRows('secret_version')]
      await expectAllRefused(openers(), 'changed')
      expect([await sealedRows('secret_value'), await sealedRows('secret_version')]).toEqual(before)
    })
  })

  test('in every request that decrypts a version, and nothing is written', async () => {
    const row = await target('secret_version', 1)
    await tampering([], async () => {
      await change('secret_version', row, { sealed: flip(row.sealed, 30, 0x10) })
      const before = [await sealedRows('secret_value'), await sealedRows('secret_version')]
      await expectAllRefused(pastOpeners(), 'changed')
      expect([await sealedRows('secret_value'), await sealedRows('secret_version')]).toEqual(before)
    })
  })

  test('behind a reference, and in the list of a credential for one environment', async () => {
    const row = (await sealedRows('secret_value')).find(
      ({ key, environment_id }) => key === 'ONE' && environment_id === environmentOf(open, 1),
    )
    if (!row) throw new Error('there is no such value')
    const path = `/v1/workspace/main/project/open/secret/REFERENCE?resolve=true&onUnresolved=`
    const look = async () => [
      await service.call('GET', `${path}keep`, { token: owner.session }),
      await service.call('GET', `${path}empty`, { token: owner.session }),
      await service.call('GET', '/v1/secrets', { token: scopedToken }),
      await service.call('GET', '/v1/secrets', { token: await exchange(service, scopedToken) }),
    ]
    for (const answer of await look()) expect(valuesIn(answer).length, answer.text).toBeGreaterThan(0)
    await tampering([], async () => {
      await change('secret_value', row, { sealed: flip(row.sealed, 30, 0x10) })
      invalidateAll()
      for (const answer of await look()) expectIntegrity(answer, 'reference')
    })
  })

  test.each<[string, (sealed: Buffer) => Buffer]>([
    ['no bytes', () => Buffer.alloc(0)],
    ['one byte', (sealed) => sealed.subarray(0, 1)],
    ['the header only', (sealed) => sealed.subarray(0, 5)],
    ['all but the last byte', (sealed) => sealed.subarray(0, -1)],
    ['one extra byte', (sealed) => Buffer.concat([sealed, Buffer.alloc(1)])],
    ['no authentication tag', (sealed) => sealed.subarray(0, -16)],
    ['zeros', (sealed) => Buffer.alloc(sealed.length)],
    ['plaintext', () => Buffer.from('a text that was never sealed, long enough to be a record')],
  ])('%s instead of the ciphertext', async (_what, made) => {
    for (const table of ['secret_value', 'secret_version'] as const) {
      const row = await target(table, 2)
      await tampering([], async () => {
        await change(table, row, { sealed: made(bytesOf(row.sealed)) })
        invalidateAll()
        expectIntegrity(await read(row), table)
      })
    }
  })
})
describe('a cached value', () => {
  test('hides no tampering: the row is an error after the next write and after a restart', async () => {
    const row = await target('secret_value', 2)
    const other = await one(
      'select sealed, version from secret_value where secret_id = ? and environment_id = ? and owner_id = ?',
      [row.secret_id ?? null, environmentOf(open, 1), ''],
    )
    const before = await read(row)
    expect(before.status).toBe(200)
    await tampering(['audit_entry', 'audit_head', 'audit_batch'], async () => {
      await change('secret_value', row, { sealed: other.sealed ?? null, version: other.version ?? null })
      const remembered = await read(row)
      if (remembered.status === 200) expect(remembered.text).toBe(before.text)
      else expectIntegrity(remembered, 'remembered')
      const etag = before.headers.get('etag') ?? ''
      const path = `/v1/workspace/main/project/open/secret/ONE?environmentId=${environmentOf(open, 0)}`
      const matching = { token: owner.session, headers: { 'if-none-match': etag } }
      expect([304, 500]).toContain((await service.call('GET', path, matching)).status)

      const body = { environmentId: environmentOf(open, 0), value: 'bumped' }
      await send(owner, 'PUT', 'main/project/open/secret/TWO/value', body)
      expectIntegrity(await read(row), 'after a write')
      expectIntegrity(await service.call('GET', path, matching), 'after a write, with its ETag')

      const restarted = await openService(service.settings, service.dataDir)
      try {
        expectIntegrity(await restarted.call('GET', path, { token: owner.session }), 'restarted')
        expectIntegrity(await restarted.call('GET', path, matching), 'restarted, with its ETag')
      } finally {
        await restarted.stop()
      }
    })
  })
})
