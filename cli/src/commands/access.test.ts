/** `coffer explain`, `coffer access` and `coffer members` against a real service. */
import type { Scope } from '@coffer/contract/field'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { addUser, createProject, createToken, type TestProject, type TestUser } from '../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

const none: Scope = { all: false, teams: [], projects: [], environments: [] }

let coffer: SdkService
let shop: TestProject
let ann: TestUser
let canary: string
beforeAll(async () => {
  coffer = await startSdkService()
  const { service, session } = coffer
  shop = await createProject(service, session, 'shop')
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
  ann = await addUser(service, 'ann@example.com', {
    workspaceId: body.id,
    role: 'developer',
    scope: { ...none, environments: [idOf('staging')] },
    further: [{ role: 'member', scope: { ...none, environments: [idOf('production')] } }],
  })
  canary = (await createToken(service, ann.session, { name: 'build', scope: { environments: [idOf('staging')] } }))
    .token
  await createToken(service, session, { name: 'twin' })
  await createToken(service, session, { name: 'twin' })
  await createToken(service, session, { name: '=SUM(A1),"x"', scope: { projects: [shop.id] }, permission: 'read' })
})
afterAll(() => coffer.stop())

const idOf = (name: string) => shop.environments.find((environment) => environment.name === name)?.id ?? ''
const shellOf = (more: Record<string, string | undefined> = {}) =>
  openShell({
    ...coffer.env,
    COFFER_TOKEN: coffer.session,
    COFFER_PROJECT: undefined,
    COFFER_ENVIRONMENT: undefined,
    ...more,
  })

describe('explain', () => {
  test('answers in sentences', async () => {
    const write = ['explain', 'ann@example.com', 'write', '-p', 'shop', '-e']
    const { code, out, err } = await shellOf().coffer([...write, 'staging'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out.split('\n')[0]).toBe(
      'yes\tann@example.com may write secrets in staging of shop: the grant developer for staging of shop allows it.',
    )
    const refused = await shellOf().coffer([...write, 'production'])
    expect(refused).toMatchObject({ code: 0, out: expect.stringMatching(/^no\tann@example.com may not write secrets/) })
    expect((await shellOf().coffer([...write, 'production', '--exit-code'])).code).toBe(4)
    expect((await shellOf().coffer([...write, 'staging', '--exit-code'])).code).toBe(0)
  })

  test('finds machines by name, and works in the place of the folder', async () => {
    const place = { COFFER_PROJECT: 'shop', COFFER_ENVIRONMENT: 'staging' }
    const { out } = await shellOf(place).coffer(['explain', 'build', 'read'])
    expect(out).toContain('yes\tThe token build may read secrets in staging of shop')
    expect(out).not.toContain(canary)
    // The environment of the folder says nothing about another project.
    expect((await shellOf(place).coffer(['explain', 'build', 'read', '-p', 'api'])).out).toContain(
      'no\tThe token build may not read secrets in the project api',
    )
    expect((await shellOf(place).coffer(['explain', 'build', 'read', '--anywhere'])).out).toContain(
      'in the project shop',
    )
  })

  test('--json is the object of the API', async () => {
    const { out } = await shellOf().coffer(['explain', 'ann@example.com', 'member:write', '--json'])
    expect(JSON.parse(out)).toMatchObject({ allowed: false, status: 403, actor: { id: ann.memberId } })
  })

  test.each([
    [['explain', 'ann@example.com'], 2, 'An argument is missing.'],
    [['explain', 'ann@example.com', 'steal'], 2, 'ACTION must be one of: read, write, share, secret:read'],
    [['explain', 'nobody', 'read'], 5, 'Nobody here is called nobody.'],
    [['explain', 'nobody@example.com', 'read'], 5, 'Nobody in this workspace has this id or address'],
    [['explain', 'twin', 'read'], 2, 'Several are called twin: name one by its id.'],
    [['explain', 'build', 'read', '-e', 'staging'], 2, '--environment needs a project.'],
    [['explain', 'build', 'read', '--anywhere', '-p', 'shop'], 2, '--anywhere stands alone'],
    [['explain', 'build', 'read', '-p', 'absent'], 5, 'There is no project absent in this workspace.'],
    [['explain', 'build', 'read', '--ip', 'somewhere'], 1, 'ip: is not an IP address.'],
    [['access', '-p', 'shop', '-e', 'absent'], 5, 'There is no environment shop/absent that you may see.'],
    [['access', '-p', 'absent'], 5, 'There is no project absent in this workspace.'],
    [['access', '--type', 'robot'], 2, '--type must be one of: user, service, token, oidc.'],
    [['access', '--format', 'csv', '--json'], 2, 'Give --format or --json.'],
  ])('%j ends with %i', async (args, code, message) => {
    const outcome = await shellOf().coffer(args)
    expect(outcome).toMatchObject({ code, out: '' })
    expect(outcome.err).toContain(message)
  })

  test.each([['explain', 'ann@example.com', 'read'], ['access'], ['members', 'list']])(
    'needs an admin: %s',
    async (...args) => {
      expect((await shellOf({ COFFER_TOKEN: ann.session }).coffer(args)).code).toBe(4)
    },
  )
})

describe('access', () => {
  const rowsOf = (out: string) =>
    out
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t'))

  test('lists who can read an environment', async () => {
    const { code, out, err } = await shellOf().coffer(['access', '-p', 'shop', '-e', 'production'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const rows = rowsOf(out)
    expect(rows).toContainEqual(['user', 'owner@example.com', '', 'shop/production', 'admin', ''])
    expect(rows).toContainEqual(['user', 'ann@example.com', '', 'shop/production', 'read', ''])
    expect(rows.every(([, , , place]) => place === 'shop/production')).toBe(true)
    expect(rows.some(([, name]) => name === 'build')).toBe(false)
    const staging = await shellOf().coffer(['access', '-p', shop.id, '-e', idOf('staging'), '--type', 'token'])
    expect(rowsOf(staging.out)).toContainEqual(['token', 'build', 'ann@example.com', 'shop/staging', 'write', ''])
    expect(out + staging.out).not.toContain(canary)
  })

  test('lists the whole workspace, people without access too', async () => {
    const { body } = await coffer.service.call<{ id: string }>('POST', '/v1/workspace/main/rbac', {
      token: coffer.session,
      body: { email: 'new@example.com', role: 'member', scope: { all: true } },
    })
    const { out } = await shellOf({ COFFER_PROJECT: 'shop' }).coffer(['access', '--anywhere', '--json'])
    const rows: { actor: { id: string; name: string }; environments: unknown[] }[] = JSON.parse(out)
    expect(rows.find(({ actor }) => actor.name === 'owner@example.com')?.environments).toHaveLength(6)
    expect(rows.find(({ actor }) => actor.id === body.id)).toMatchObject({ environments: [] })
    const table = rowsOf((await shellOf().coffer(['access', '--anywhere'])).out)
    expect(table).toContainEqual(['user', 'new@example.com', '', '', 'none', 'The invite has not been accepted yet.'])
  })

  test('is aligned on a terminal', async () => {
    const session = shellOf().terminal(['access', '-p', 'shop', '-e', 'staging', '--type', 'user'])
    await session.see(/TYPE\s+NAME\s+OWNER\s+ENVIRONMENT\s+RIGHT\s+PROBLEM/)
    await session.see(/user\s+ann@example\.com\s+shop\/staging\s+write/)
    expect((await session.ended).code).toBe(0)
  })

  test('writes CSV that a spreadsheet takes for text', async () => {
    const { out } = await shellOf().coffer(['access', '-p', 'shop', '-e', 'staging', '--format', 'csv'])
    const [head, ...rows] = out.split('\r\n')
    expect(head).toBe('type,name,owner,environment,right,problem')
    expect(rows).toContain('user,ann@example.com,,shop/staging,write,')
    expect(rows).toContain(`token,"'=SUM(A1),""x""",owner@example.com,shop/staging,read,`)
    expect(rows.at(-1)).toBe('')
  })
})

describe('members', () => {
  const grantsOf = async (email: string) => {
    const { out } = await shellOf().coffer(['members', 'list'])
    return out
      .split('\n')
      .map((line) => line.split('\t'))
      .find(([, name]) => name === email)
      ?.slice(2)
  }

  test('lists grants, and sets several of them', async () => {
    expect(await grantsOf('owner@example.com')).toEqual(['owner', 'admin:all'])
    expect(await grantsOf('ann@example.com')).toEqual([
      'account-created',
      'developer:shop/staging member:shop/production',
    ])
    const words = ['--grant', 'developer:shop/staging,shop/development', '--grant', 'member:shop/production']
    const { code, out, err } = await shellOf().coffer(['members', 'set', 'Ann@example.com', ...words])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('\tdeveloper:shop/')
    const json = JSON.parse((await shellOf().coffer(['members', 'list', '--json'])).out)
    expect(json.find(({ id }: { id: string }) => id === ann.memberId).grants).toHaveLength(2)
  })

  test('asks before a role replaces several grants, and refuses without a terminal', async () => {
    const set = ['members', 'set', ann.memberId ?? '', '--role', 'member']
    const before = await grantsOf('ann@example.com')
    const refused = await shellOf().coffer(set)
    expect(refused).toMatchObject({ code: 2, out: '' })
    expect(refused.err).toContain('ann@example.com has 2 grants: developer:shop/')
    expect(refused.err).toContain('try: --grant for each, or --yes')
    const session = shellOf().terminal(set)
    await session.see('replace all of them by one')
    session.type('n')
    expect(await session.ended).toMatchObject({ code: 130 })
    expect(await grantsOf('ann@example.com')).toEqual(before)
    const done = await shellOf().coffer([...set, '--scope', 'shop', '--yes'])
    expect(done).toMatchObject({ code: 0, out: `${ann.memberId}\tann@example.com\tmember:shop\n` })
    // A single grant is replaced without a question.
    expect((await shellOf().coffer([...set, '--scope', 'shop/staging'])).code).toBe(0)
  })

  test.each([
    [['set', 'ann@example.com'], 2, 'Give --grant, or --role and --scope.'],
    [['set', 'ann@example.com', '--grant', 'member:all', '--role', 'admin'], 2, 'Give --grant, or --role and --scope.'],
    [['set', 'ann@example.com', '--grant', 'owner:all'], 2, '--grant must be ROLE:PLACE.'],
    [['set', 'ann@example.com', '--grant', 'member'], 2, '--grant must be ROLE:PLACE.'],
    [['set', 'ann@example.com', '--grant', 'member:a/b/c'], 2, '--grant must be all, PROJECT,'],
    [['set', 'ann@example.com', '--grant', 'member:absent'], 5, 'There is no project absent that you may see.'],
    [['set', 'nobody@example.com', '--role', 'member'], 5, 'There is no member nobody@example.com.'],
    [['set', 'owner@example.com', '--role', 'member'], 6, 'transfer ownership first'],
  ])('%j ends with %i', async (args, code, message) => {
    const outcome = await shellOf().coffer(['members', ...args])
    expect(outcome).toMatchObject({ code, out: '' })
    expect(outcome.err).toContain(message)
  })
})
