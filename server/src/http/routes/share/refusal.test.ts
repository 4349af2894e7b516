/** A refused share leaves nothing behind. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { loopbackAllowed } from '../../../../../test/issuer.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createShareProject, expectGone, type ShareProject } from '../../../../../test/share.ts'

let service: TestService
let owner: TestUser
let project: ShareProject
let development: string
let staging: string
const ids = new Map<string, string>()

beforeAll(async () => {
  service = await startService({ COFFER_PUBLIC_URL: 'https://coffer.example.com', ...loopbackAllowed })
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
  development = project.idOf('development')
  staging = project.idOf('staging')
  const values = { DB_HOST: 'db.example.com', DB_URL: `postgres://\${DB_HOST}/app`, EMPTY: '' }
  const made = await project.must<{ results: { key: string; id: string }[] }>('POST', '/secret', {
    environments: [development],
    secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
  })
  for (const { key, id } of made.results) ids.set(key, id)
  await project.set(staging, { DB_HOST: 'staging.example.com' })
})
afterAll(() => service.stop())

const secret = (key: string, environmentId = development) => ({ id: ids.get(key) ?? '', environmentId })

describe('a refused share leaves nothing behind:', () => {
  const bytes = (count: number) => randomBytes(count).toString('base64url')
  const envelope = () => ({ ciphertext: bytes(284), commit: bytes(32), linkProofHash: bytes(32) })
  const refusals: [string, () => object, RegExp][] = [
    ['no content', () => ({}), /^content: send exactly one/],
    ['two kinds of content', () => ({ content: 'x', secrets: [secret('DB_URL')] }), /^content: send exactly one/],
    [
      'all three kinds of content',
      () => ({ content: 'x', secrets: [secret('DB_URL')], envelope: envelope() }),
      /^content: /,
    ],
    ['an empty text', () => ({ content: '' }), /^content: must not be empty/],
    ['a text that is not a string', () => ({ content: 1 }), /^content: must be a string/],
    ['no secrets', () => ({ secrets: [] }), /^secrets: /],
    ['the same value twice', () => ({ secrets: [secret('DB_URL'), secret('DB_URL')] }), /^secrets: names the same/],
    ['a secret by its name', () => ({ secrets: [{ ...secret('X'), id: 'DB_URL' }] }), /^secrets\.0\.id: /],
    ['a lifetime that is too short', () => ({ content: 'x', expiresIn: 299 }), /^expiresIn: must be 300 or more/],
    [
      'a lifetime that is too long',
      () => ({ content: 'x', expiresIn: 2_592_001 }),
      /^expiresIn: must be 2592000 or less/,
    ],
    ['no lifetime', () => ({ content: 'x', expiresIn: undefined }), /^expiresIn: is required/],
    ['no views', () => ({ content: 'x', maxViews: 0 }), /^maxViews: must be 1 or more/],
    ['too many views', () => ({ content: 'x', maxViews: 101 }), /^maxViews: must be 100 or less/],
    ['too few failures', () => ({ content: 'x', maxFailures: 2 }), /^maxFailures: must be 3 or more/],
    ['too many failures', () => ({ content: 'x', maxFailures: 21 }), /^maxFailures: must be 20 or less/],
    ['an empty password', () => ({ content: 'x', password: '' }), /^password: must not be empty/],
    ['a label of two lines', () => ({ content: 'x', label: 'a\nb' }), /^label: /],
    ['an unknown field', () => ({ content: 'x', colour: 'red' }), /^colour: is not a known field/],
    [
      'a password beside an envelope',
      () => ({ envelope: envelope(), password: 'x' }),
      /^password: must not be sent for an end-to-end share/,
    ],
    ['an unpadded envelope', () => ({ envelope: { ...envelope(), ciphertext: bytes(300) } }), /^envelope\.c/],
    [
      'an envelope that is too small',
      () => ({ envelope: { ...envelope(), ciphertext: bytes(28) } }),
      /^envelope\.ciphertext: /,
    ],
    [
      'an envelope that is too large',
      () => ({ envelope: { ...envelope(), ciphertext: bytes(512 * 1024 + 284) } }),
      /^envelope\.ciphertext: /,
    ],
    [
      'a commitment that is too short',
      () => ({ envelope: { ...envelope(), commit: bytes(31) } }),
      /^envelope\.commit: /,
    ],
    ['a hash with padding', () => ({ envelope: { ...envelope(), linkProofHash: `${bytes(32)}=` } }), /^envelope\.link/],
    [
      'a hash in a non-canonical encoding',
      () => ({ envelope: { ...envelope(), commit: 'B'.repeat(43) } }),
      /^envelope\.commit/,
    ],
    [
      'an envelope with an unknown field',
      () => ({ envelope: { ...envelope(), key: 'x' } }),
      /^envelope\.key: is not a known/,
    ],
  ]
  test.each(refusals)('%s', async (_what, make, message) => {
    const before = await readContent(service.app.services)
    const answer = await project.ask('POST', '/secret-share', { expiresIn: 300, ...make() })
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.message).toMatch(message)
    const after = await readContent(service.app.services)
    expect(describeChanges(before, after)).toEqual([])
    expect(after.trail).toBe(before.trail)
  })

  test.each<[string, () => object]>([
    ['an environment that does not exist', () => secret('DB_URL', crypto.randomUUID())],
    ['a secret that does not exist', () => ({ id: crypto.randomUUID(), environmentId: development })],
    ['a secret without a value there', () => secret('DB_URL', staging)],
  ])('%s is not found', async (_what, place) => {
    const answer = await project.ask('POST', '/secret-share', { secrets: [secret('DB_HOST'), place()], expiresIn: 300 })
    expectGone(answer)
  })

  test('more than 1,000 active shares in a project', async () => {
    const crowded = await createShareProject(service, owner.session)
    const { id } = await crowded.make({ content: 'the first' })
    const raw = await openRaw(service)
    const others = 'with recursive c (n) as (select 1 union all select n + 1 from c where n < 999) select n from c'
    const [row = {}] = await raw.query('select * from share where id = ?', [id])
    const copied = Object.keys(row).map((column) => {
      if (column === 'id') return 'id || n'
      return column === 'token_hash' ? 'null' : column
    })
    await raw.query(`insert into share select ${copied.join(', ')} from share, (${others}) numbers where id = ?`, [id])
    await raw.close()
    const answer = await crowded.ask('POST', '/secret-share', { content: 'one more', expiresIn: 300 })
    expect(answer.status, answer.text).toBe(409)
    expect(answer.body.message).toMatch(/^This project has 1000 active shares/)
    await crowded.revoke(id)
    expect((await crowded.ask('POST', '/secret-share', { content: 'one more', expiresIn: 300 })).status).toBe(201)
    await service.call('DELETE', crowded.root, { token: owner.session })
  })
})
