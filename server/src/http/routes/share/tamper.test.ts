/** A tampered share cannot be opened; a share whose keys were rotated opens as before. */
import type { IssuedShare } from '@coffer/contract/share'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'
import { createShareProject, expectGone, type ShareProject } from '../../../../../test/share.ts'
import { asOperator, type Context } from '../../../domain/context.ts'
import { listRootStatus, rotateRoot, rotateWorkspaceKey } from '../../../domain/workspace/key.ts'
import { countTampered } from '../../../store/integrity.ts'

let service: TestService
let raw: RawDatabase
let project: ShareProject
let ctx: Context

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  project = await createShareProject(service, (await registerOwner(service)).session)
  ctx = asOperator(service.app.services)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const row = async (id: string): Promise<RawRow> => (await raw.query('select * from share where id = ?', [id]))[0] ?? {}
const set = (id: string, column: string, cell: Cell) =>
  raw.query(`update share set ${column} = ? where id = ?`, [cell, id])

function changed(cell: Cell | undefined): Cell {
  if (cell instanceof Uint8Array) {
    const bytes = Buffer.from(cell)
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
    return bytes
  }
  return typeof cell === 'number' ? cell + 1 : `${cell ?? ''}x`
}

describe('a row with a changed', () => {
  test.each([
    'label',
    'environment_ids',
    'has_password',
    'size_bytes',
    'max_views',
    'max_failures',
    'created_at',
    'expires_at',
    'password_hash',
    'link_proof_hash',
    'pass_proof_hash',
    'mac',
  ])('%s cannot be opened, and the doctor command reports it', async (column) => {
    const share = await project.makeSealed({ t: 'text', v: 'x' }, 'passphrase', { maxViews: 3 })
    const before = await row(share.id)
    await set(share.id, column, changed(before[column]))
    expectGone(await project.view(share.token, share.key))
    expectGone(await project.meta(share.token))
    const { engine, keys } = service.app.services
    expect(await countTampered(engine, keys)).toEqual(['1 shares'])
    await set(share.id, column, before[column] ?? null)
    expect((await project.view(share.token, share.key)).status).toBe(200)
    expect(await countTampered(engine, keys)).toEqual([])
  })

  test.each([
    ['password: removed', { password_hash: null, has_password: 0 }],
    ['password: removed together with the MAC', { password_hash: null, has_password: 0, mac: null, mac_root_id: null }],
  ])('%s, cannot be opened', async (_what, cells) => {
    const { id, token } = await project.make({ content: 'x', password: 'right' })
    for (const [column, cell] of Object.entries(cells)) await set(id, column, cell)
    expectGone(await project.view(token))
    await project.revoke(id)
  })

  test('kind, from end-to-end to server, cannot be opened', async () => {
    const share = await project.makeSealed({ t: 'text', v: 'x' }, 'passphrase')
    await set(share.id, 'kind', 'server')
    expectGone(await project.view(share.token))
    await project.revoke(share.id)
  })
})

test('a row that is changed after it was found cannot be opened, and no view is taken', async () => {
  const { id, token } = await project.make({ content: 'x', maxViews: 1 })
  const { engine } = service.app.services
  const { commit } = engine
  const joined = vi.spyOn(engine, 'commit').mockImplementationOnce(async (lock, job, options) => {
    await set(id, 'max_views', 2)
    return commit(lock, job, options)
  })
  try {
    expectGone(await project.view(token))
    expect(joined).toHaveBeenCalledTimes(1)
  } finally {
    joined.mockRestore()
  }
  expect(await row(id)).toMatchObject({ views: 0, state: 'active' })
  await set(id, 'max_views', 1)
  expect((await project.view(token)).body).toEqual({ content: 'x', viewsLeft: 0 })
})

test('a row without its MAC cannot be opened, is reported by the doctor command, and blocks no root key rotation', async () => {
  const { id, token } = await project.make({ content: 'x' })
  await set(id, 'mac', null)
  expectGone(await project.view(token))
  const { engine, keys } = service.app.services
  expect(await countTampered(engine, keys)).toEqual(['1 shares'])
  await rotateRoot(ctx, () => undefined, 0)
  expectGone(await project.view(token))
  expect(await countTampered(engine, keys)).toEqual(['1 shares'])
  await project.revoke(id)
})

test.each(['[]x', '{}', 'null', '[1]', ''])(
  'a row whose environments became %s can still be listed and revoked',
  async (ids) => {
    const { id, token } = await project.make({ content: 'x' })
    await set(id, 'environment_ids', ids)
    expectGone(await project.view(token))
    expect(await project.find(id)).toMatchObject({ state: 'active' })
    await project.revoke(id)
    expect(await project.find(id)).toMatchObject({ state: 'revoked' })
  },
)

test('the link of one share does not open another', async () => {
  const mine = await project.make({ content: 'mine' })
  const theirs = await project.make({ content: 'theirs', password: 'secret' })
  const [a, b] = [await row(mine.id), await row(theirs.id)]
  await set(mine.id, 'token_hash', 'none')
  await set(theirs.id, 'token_hash', a.token_hash ?? null)
  expectGone(await project.view(mine.token))
  await set(theirs.id, 'token_hash', b.token_hash ?? null)
  await set(mine.id, 'token_hash', a.token_hash ?? null)
  await set(mine.id, 'sealed', b.sealed ?? null)
  const swapped = await project.view(mine.token)
  expect(swapped.status).toBe(500)
  expect(swapped.text).not.toContain('theirs')
  expect(await project.find(mine.id)).toMatchObject({ views: 0 })
  await set(mine.id, 'sealed', a.sealed ?? null)
  expect((await project.view(mine.token)).body.content).toBe('mine')
})

test('contents with any changed byte are an error and use up no view', async () => {
  const { id, token } = await project.make({ content: 'x' })
  const { sealed } = await row(id)
  const length = sealed instanceof Uint8Array ? sealed.length : 0
  for (let at = 0; at < length; at++) {
    const bytes = Buffer.from(sealed as Uint8Array)
    bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at)
    await set(id, 'sealed', bytes)
    expect((await project.view(token)).status, `byte ${at}`).toBe(500)
  }
  await set(id, 'sealed', sealed ?? null)
  expect((await project.view(token)).body).toEqual({ content: 'x', viewsLeft: 0 })
})

describe('after a key rotation', () => {
  const shares: (IssuedShare & { readonly content: string })[] = []

  beforeAll(async () => {
    for (const content of ['first', 'second']) {
      shares.push({ ...(await project.make({ content, password: 'right', maxViews: 10 })), content })
    }
  })

  async function expectReadable(): Promise<void> {
    for (const { token, content } of shares) {
      expect((await project.view(token, { password: 'right' })).body.content).toBe(content)
    }
    expect((await project.view('nobody-has-this')).status).toBe(404)
  }

  test('with a new root key every share is readable, and its MAC is valid', async () => {
    await rotateRoot(ctx, () => undefined, 0)
    await expectReadable()
    const { engine, keys } = service.app.services
    expect(await countTampered(engine, keys)).toEqual([])
    const [active] = await listRootStatus(ctx)
    for (const { id } of shares) expect((await row(id)).mac_root_id).toBe(active?.id)
  })

  test('with a new workspace key shares are encrypted again, and the old key is deleted', async () => {
    const before = await Promise.all(shares.map(({ id }) => row(id)))
    await rotateWorkspaceKey(ctx, 'main', () => undefined, 0)
    await expectReadable()
    for (const [index, { id }] of shares.entries()) {
      const { workspace_key_version: version, sealed } = await row(id)
      expect(version).toBe(Number(before[index]?.workspace_key_version) + 1)
      expect(sealed).not.toEqual(before[index]?.sealed)
    }
    expect(await raw.query('select version from workspace_key')).toHaveLength(1)
  })

  test('the old root key is deleted with the last share that was created under it', async () => {
    const [, old] = await listRootStatus(ctx)
    expect(old?.hashes).toBeGreaterThan(0)
    for (const { id } of await project.list()) await project.revoke(id)
    // The session of this test moves to the new root key by itself.
    await rotateRoot(ctx, () => undefined, 0)
    expect((await listRootStatus(ctx)).map(({ id }) => id)).not.toContain(old?.id)
  })
})
