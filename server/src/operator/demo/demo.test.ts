/** `coffer-server demo`: an example that the pages of the dashboard can show, and nothing real beside it is touched. */
import type { SignedIn } from '@coffer/contract/auth'
import type { TeamGroup } from '@coffer/contract/project'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runHere } from '../../../../test/command.ts'
import { diagnose } from '../../../../test/doctor.ts'
import {
  createDatabase,
  type Database,
  openService,
  registerOwner,
  type TestService,
} from '../../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../../test/mail-server.ts'

const dayMs = 86_400_000

function readLogin(out: string): { url: string; email: string; password: string } {
  const [url = '', email = '', password = ''] = out
    .split('\n')
    .filter((line) => line.startsWith('  '))
    .map((line) => line.trim())
  return { url, email, password }
}

async function signIn(service: TestService, out: string): Promise<string> {
  const { email, password } = readLogin(out)
  const answer = await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email, password } })
  expect(answer.status).toBe(200)
  return answer.body.accessToken
}

describe('in an empty store', () => {
  let database: Database
  let service: TestService
  let token: string
  let printed: string
  const get = async <Body>(path: string) => {
    const answer = await service.call<Body>('GET', path, { token })
    expect(answer.status, path).toBe(200)
    return answer.body
  }

  beforeAll(async () => {
    // Without a schema: the command makes the store.
    database = await createDatabase()
    const { code, out, err } = await runHere(['demo'], {
      ...database.settings,
      COFFER_PUBLIC_URL: 'https://coffer.example.com',
    })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    printed = out
    service = await openService(database.settings, database.dataDir)
    token = await signIn(service, out)
  })
  afterAll(async () => {
    await service.stop()
    await database.drop()
  })

  test('says what is in it and how to sign in, once', async () => {
    expect(printed).toContain(
      'The workspace "shop" is ready: 5 people, 3 projects, 62 secrets. No value in it is real.',
    )
    expect(readLogin(printed)).toEqual({
      url: 'https://coffer.example.com/shop',
      email: 'ada@shop.example.test',
      password: expect.stringMatching(/^[\w-]{24}$/),
    })
  })

  test('every page of the dashboard has something to show', async () => {
    const ws = '/v1/workspace/shop'
    const groups = await get<TeamGroup[]>(`${ws}/project`)
    const slugs = groups.flatMap(({ projects }) => projects.map(({ slug }) => slug))
    expect(slugs.toSorted()).toEqual(['checkout', 'platform', 'storefront'])
    for (const slug of slugs) {
      const secrets = await get<Secret[]>(`${ws}/project/${slug}/secret?resolve=true&onUnresolved=error`)
      expect(secrets.length).toBeGreaterThan(15)
      for (const { name, values } of secrets) {
        expect(values, name).toHaveLength(3)
        for (const { value } of values) expect(value, name).not.toContain('${')
      }
      expect(await get<unknown[]>(`${ws}/project/${slug}/secret?view=cells`)).toHaveLength(secrets.length)
    }
    const storefront = `${ws}/project/storefront`
    expect(await get<unknown[]>(`${storefront}/secret/trash`)).toHaveLength(1)
    const versions = await get<unknown[]>(`${storefront}/secret/FEATURE_NEW_CART/version?environmentId=production`)
    expect(versions).toHaveLength(2)
    expect(await get<unknown[]>(`${ws}/rbac`)).toHaveLength(6)
    expect(await get<unknown[]>(`${ws}/tokens?all=true`)).not.toHaveLength(0)
    expect(await get<unknown[]>(`${ws}/service-account`)).toMatchObject([{ name: 'storefront-deploy', tokens: 1 }])
    expect(await get<unknown[]>(`${ws}/project/platform/secret-share`)).toMatchObject([
      { label: 'Door code', state: 'active' },
    ])
    expect(await get(`${ws}/audit/verify`)).toMatchObject({ ok: true })
  })

  test('its history goes back for days', async () => {
    const entries = await get<{ at: string; actor: { name: string } }[]>('/v1/workspace/shop/audit?limit=200')
    const days = new Set(entries.map(({ at }) => Math.floor((Date.now() - Date.parse(at)) / dayMs)))
    expect(days.size).toBeGreaterThan(5)
    expect(new Set(entries.map(({ actor }) => actor.name)).size).toBeGreaterThanOrEqual(5)
  })

  test('the doctor finds nothing wrong', async () => {
    expect((await diagnose(database)).filter(({ level }) => level === 'wrong')).toEqual([])
  })

  test('a second run is refused and adds nothing', async () => {
    const before = await service.app.services.store.accounts.count()
    expect(await runHere(['demo'], database.settings)).toEqual({
      code: 1,
      out: '',
      err: 'This store has accounts already: "npm run coffer-server -- demo --into <workspace>" puts the example into a new workspace beside yours.\n',
    })
    expect(await service.app.services.store.accounts.count()).toBe(before)
  })
})

describe('beside real workspaces', () => {
  let database: Database
  let service: TestService
  let mailServer: MailServer
  let session: string
  beforeAll(async () => {
    mailServer = await startMailServer()
    database = await createDatabase({ hasSchema: true })
    service = await openService(database.settings, database.dataDir)
    session = (await registerOwner(service)).session
  })
  afterAll(async () => {
    await service.stop()
    await database.drop()
    await mailServer.stop()
  })
  const demo = (slug: string) =>
    runHere(['demo', '--into', slug], { ...database.settings, COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}` })

  test.each([
    ['main', /^There is a workspace "main" already: name a new one/],
    ['Not A Slug', /^--into: the slug of a workspace is /],
    ['login', /"login" is a reserved word\.$/],
  ])('refuses %s', async (slug, sentence) => {
    const { code, err } = await demo(slug)
    expect(code).toBe(1)
    expect(err.trimEnd()).toMatch(sentence)
    expect(await service.app.services.store.accounts.count()).toBe(1)
  })

  test('fills a new workspace while the service runs, with the real time, and mails nobody', async () => {
    const startedAt = Date.now()
    const { code, out, err } = await demo('example')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const token = await signIn(service, out)
    const entries = await service.call<{ at: string }[]>('GET', '/v1/workspace/example/audit?limit=200', { token })
    expect(entries.body.length).toBeGreaterThan(20)
    for (const { at } of entries.body) expect(Date.parse(at)).toBeGreaterThanOrEqual(startedAt - 1_000)
    expect(mailServer.delivered).toEqual([])
    // The people of the example and those of other workspaces see nothing of each other.
    expect((await service.call('GET', '/v1/workspace/example', { token: session })).status).toBe(404)
    expect((await service.call('GET', '/v1/workspace/main', { token })).status).toBe(404)
    expect((await demo('example')).code).toBe(1)
  })
})
