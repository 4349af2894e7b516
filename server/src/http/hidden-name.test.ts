/** New names hide no characters and reverse no text; older names that do keep working. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createProject, registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let teamId: string
const root = '/v1/workspace/main'
const everything = { all: true }
const refused = {
  status: 400,
  body: { message: 'name: must not have invisible characters, or ones that change the direction of the text.' },
}

beforeAll(async () => {
  service = await startService({ COFFER_SIGNUP: 'open' })
  owner = await registerOwner(service)
  teamId = (await createProject(service, owner.session, 'api')).teamId
})
afterAll(() => service.stop())

const send = (method: string, path: string, body: object) =>
  service.call<{ id: string; message?: string }>(method, path, { token: owner.session, body })
const identity = {
  issuer: 'https://issuer.example.com',
  audience: 'a',
  subject: 's',
  permission: 'read',
  scope: everything,
}

/** What has a name: how one is made. */
const makers: readonly [what: string, path: string, body: (name: string) => object][] = [
  ['workspace', '/v1/workspace', (name) => ({ name, slug: 'other' })],
  ['team', `${root}/team`, (name) => ({ name })],
  ['project', `${root}/project`, (name) => ({ name, slug: 'shop', teamId })],
  ['environment', `${root}/project/api/environment`, (name) => ({ name })],
  ['token', `${root}/tokens`, (name) => ({ name, permission: 'read', scope: everything, expiresIn: '30d' })],
  ['service account', `${root}/service-account`, (name) => ({ name, grants: [{ role: 'member', scope: everything }] })],
  ['identity', `${root}/oidc`, (name) => ({ name, ...identity })],
  [
    'person',
    '/v1/auth/register',
    (name) => ({ name, email: 'new@example.com', password: 'correct horse battery staple' }),
  ],
]

test.each(makers)('a new %s has no such name', async (what, path, body) => {
  const register = path === '/v1/auth/register'
  for (const hidden of [
    '\u202e',
    '\u2066',
    '\u200b',
    '\u200f',
    '\ufeff',
    '\u00ad',
    '\u2060',
    '\u3164',
    '\u0085',
    '\u{e0041}',
  ]) {
    const answer = register
      ? await service.call('POST', path, { body: body(`ab${hidden}cd`) })
      : await send('POST', path, body(`ab${hidden}cd`))
    if (what === 'environment') expect(answer.status).toBe(400)
    else expect(answer, JSON.stringify(hidden)).toMatchObject(refused)
  }
})

test('other scripts and emoji are allowed, joined ones too', async () => {
  for (const name of ['Équipe für Ñandú', '\u05e6\u05d5\u05d5\u05ea', '開発', '👩‍💻 ❤️ 🇫🇷']) {
    expect((await send('POST', `${root}/team`, { name })).status, name).toBe(201)
  }
})

test('an older name can be read and sent back, and not given again', async () => {
  const hidden = 'old\u202ename'
  const raw = await openRaw(service)
  const { body: team } = await send('POST', `${root}/team`, { name: 'plain' })
  const { body: account } = await send('POST', `${root}/service-account`, {
    ...{ name: 'robot', grants: [{ role: 'member', scope: everything }] },
  })
  await raw.query('update team set name = ? where id = ?', [hidden, team.id])
  await raw.query(`update workspace set name = ? where slug = 'main'`, [hidden])
  await raw.query(`update project set name = ? where slug = 'api'`, [hidden])
  await raw.close()
  service.app.services.snapshots.clear()
  for (const [path, other] of [
    [`${root}/team/${team.id}`, {}],
    [root, {}],
    [`${root}/project/api`, { slug: 'api' }],
  ] as const) {
    expect((await send('PUT', path, { name: hidden, ...other })).status, path).toBe(200)
    expect(await send('PUT', path, { name: `${hidden}!`, ...other }), path).toMatchObject(refused)
    expect((await send('PUT', path, { name: 'clear', ...other })).status, path).toBe(200)
    expect(await send('PUT', path, { name: hidden, ...other }), path).toMatchObject(refused)
  }
  expect(await send('PUT', `${root}/service-account/${account.id}`, { name: hidden })).toMatchObject(refused)
  expect(await send('PUT', '/v1/me', { name: hidden })).toMatchObject(refused)
})
