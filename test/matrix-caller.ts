/** Who asks in the authorisation matrix: every kind of credential, role and scope, and credentials that are none. */
import { createHmac } from 'node:crypto'
import type { DeviceCode } from '@coffer/contract/device'
import type { Permission, Role, Scope } from '@coffer/contract/field'
import type { Token } from '@coffer/contract/token'
import { expect } from 'vitest'
import { createBearer, sessionPrefix, tokenPrefix } from '../server/src/crypto/token.ts'
import { everything } from '../server/src/domain/scope.ts'
import type { TokenIds } from './ask.ts'
import {
  addUser,
  type CallOptions,
  createToken,
  exchange,
  password,
  type TestService,
  type TestUser,
} from './harness.ts'
import { createIdentity, federate, type TestIssuer } from './issuer.ts'
import type { Caller } from './matrix-right.ts'
import { changeMember, type ScopeName, scopeNames, scopeOf, type World } from './world.ts'

export type Stage = { readonly service: TestService; readonly world: World; readonly issuer: TestIssuer }

/** In the environment that most requests are about; the heir is nobody who asks. */
export const heirsOwn = 'only the heir may see this'
/** Everybody who asks has one in the same place, with the name of the environment after it. */
export const ownValue = 'one’s own in'

type NamedGrant<Holder = Role> = readonly [role: Holder, scope: ScopeName]

export type Person = {
  readonly name: string
  readonly grants: readonly NamedGrant<Role | 'owner'>[]
  readonly tokenScopes: readonly ScopeName[]
}

/** Several grants: disjoint, overlapping, one within another, and all the parts of something larger. */
const combinations: readonly (readonly NamedGrant[])[] = [
  [
    ['developer', 'right environment'],
    ['member', 'sibling environment'],
  ],
  [
    ['member', 'right environment'],
    ['developer', 'sibling environment'],
  ],
  [
    ['member', 'all'],
    ['admin', 'right project'],
  ],
  [
    ['developer', 'right team'],
    ['admin', 'sibling environment'],
  ],
  [
    ['developer', 'right project'],
    ['admin', 'right environment'],
    ['member', 'all'],
  ],
  [
    ['admin', 'wrong team'],
    ['member', 'right environment'],
  ],
  [
    ['admin', 'every environment'],
    ['developer', 'wrong project'],
  ],
  [
    ['developer', 'wrong environment'],
    ['admin', 'all'],
  ],
]

export const people: readonly Person[] = [
  { name: 'the owner', grants: [['owner', 'all']], tokenScopes: scopeNames },
  ...(['admin', 'developer', 'member'] as const).flatMap((role) =>
    scopeNames.map((scope): Person => {
      const tokenScopes = scope === 'all' ? scopeNames : (['all', scope] as const)
      return { name: `${role} with scope ${scope}`, grants: [[role, scope]], tokenScopes }
    }),
  ),
  ...combinations.map((grants): Person => {
    const name = grants.map(([role, scope]) => `${role} of ${scope}`).join(' and ')
    return { name, grants, tokenScopes: ['all', 'right project', 'right environment'] }
  }),
]

export async function writeOwn(
  { service, world }: Stage,
  { session }: TestUser,
  value = `${ownValue} ${world.environments.right}`,
): Promise<void> {
  const body = { environmentId: world.environments.right, value, isPersonal: true }
  const path = '/v1/workspace/main/project/right/secret/SHARED/value'
  const { status, text } = await service.call('PUT', path, { token: session, body })
  expect(status, text).toBe(200)
}

export const makeToken = (
  { service }: Pick<Stage, 'service'>,
  user: TestUser,
  permission: Permission = 'read-write',
  scope: Scope = everything,
) => createToken(service, user.session, { permission, scope, expiresIn: 'never' })

/** All credentials of one person: the session, and tokens of either permission with their JWTs. */
export async function createCallers(
  stage: Stage,
  person: Person,
  owner: TestUser,
  ownersId: string,
  adminsId: string,
): Promise<Caller[]> {
  const { service, world } = stage
  const grants = person.grants.map(([role, scope]) => ({ role, scope: scopeOf(world, scope) }))
  const isOwner = grants.some(({ role }) => role === 'owner')
  const isForAll = person.tokenScopes === scopeNames
  const { workspaceId } = world
  const email = `${person.name.replaceAll(' ', '-')}@example.com`
  // Made as an admin of everything, and narrowed afterwards: rights are those of now, not those of a token's making.
  const user = isOwner ? owner : await addUser(service, email, { workspaceId, role: 'admin' })
  if (!isOwner) await writeOwn(stage, user)
  const own = isOwner ? ownersId : (await makeToken(stage, user)).id
  const others = isOwner ? adminsId : ownersId
  const base = { isAlive: true, grants } as const
  const session: Caller = {
    ...base,
    name: 'session',
    options: { token: user.session },
    kind: 'session',
    actor: user.email,
    permission: 'read-write',
    tokens: { own, others },
  }
  const headers = { ...cookie(user.session), 'sec-fetch-site': 'same-origin' }
  const result: Caller[] = [session]
  if (isOwner) result.push({ ...session, name: 'session by cookie', options: { headers } })
  for (const scopeName of person.tokenScopes) {
    for (const permission of ['read', 'read-write'] as const) {
      const limit = scopeOf(world, scopeName)
      const token = await makeToken(stage, user, permission, limit)
      const rest = { ...base, permission, limit, tokens: { itself: token.id, own, others } }
      const name = `${permission} token for ${scopeName}`
      const jwt = await exchange(service, token.token)
      result.push({ ...rest, name, kind: 'token', options: { token: token.token } })
      result.push({ ...rest, name: `JWT of ${name}`, kind: 'jwt', options: { token: jwt } })
    }
  }
  for (const [permission, scopeName] of markedTokens(isOwner, person.tokenScopes)) {
    const limit = scopeOf(world, scopeName)
    const mark = { mayAdminister: true, password, expiresIn: '3m' } as const
    const token = await createToken(service, user.session, { permission, scope: limit, ...mark })
    const tokens = { itself: token.id, own, others }
    const rest = { ...base, permission, limit, tokens, mayAdminister: true }
    const name = `${permission} token for ${scopeName} that may administer`
    const jwt = await exchange(service, token.token)
    result.push({ ...rest, name, kind: 'token', options: { token: token.token } })
    result.push({ ...rest, name: `JWT of ${name}`, kind: 'jwt', options: { token: jwt } })
  }
  // The owner's is like an admin's, and the owner asks most as it is.
  if (isForAll && !isOwner) {
    const token = await signInDevice(stage, user)
    result.push({ ...session, name: 'command-line session', isCli: true, options: { token } })
  }
  const cli = await service.call<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    token: user.session,
    body: { environmentId: world.environments.right },
  })
  const limit = scopeOf(world, 'right environment')
  const { body: listed } = await service.call<Token[]>('GET', '/v1/workspace/main/tokens', { token: user.session })
  const itself = listed.find(({ type, isOwner }) => type === 'cli' && isOwner)?.id
  const tokens = { itself, own, others }
  const cliToken = { ...session, actor: itself ?? '', permission: 'read', limit, tokens } as const
  result.push({ ...cliToken, name: 'cli token', kind: 'token', options: { token: cli.body.token } })
  if (isForAll) {
    const cliJwt = await exchange(service, cli.body.token)
    result.push({ ...cliToken, name: 'JWT of cli token', kind: 'jwt', options: { token: cliJwt } })
  }
  await narrow(stage, owner, user, grants)
  return result
}

/** All kinds for the owner. Creating one takes a password, which is slow, so others have the one that may do most. */
const markedTokens = (isOwner: boolean, scopes: readonly ScopeName[]): readonly (readonly [Permission, ScopeName])[] =>
  isOwner
    ? scopes.flatMap((scope) => (['read', 'read-write'] as const).map((permission) => [permission, scope] as const))
    : [['read-write', 'all']]

async function narrow({ service }: Stage, owner: TestUser, user: TestUser, grants: Caller['grants']): Promise<void> {
  const narrowed = grants.flatMap(({ role, scope }) => (role === 'owner' ? [] : [{ role, scope }]))
  const [grant] = narrowed
  if (!grant || user.memberId === undefined) return
  await changeMember(service, owner, user.memberId, narrowed.length === 1 ? grant : { grants: narrowed })
}

async function signInDevice({ service }: Stage, user: TestUser): Promise<string> {
  const clientId = 'matrix'
  const ask = <Body>(path: string, body: object, token?: string) =>
    service.call<Body>('POST', `/v1/auth/device/${path}`, { body, token })
  const { body: codes } = await ask<DeviceCode>('code', { clientId })
  await ask('approve', { userCode: codes.userCode, approve: true }, user.session)
  const { deviceCode } = codes
  const { body, status, text } = await ask<{ accessToken: string }>('token', { clientId, deviceCode })
  expect(status, text).toBe(200)
  return body.accessToken
}

/** Identities that an outside issuer vouches for: members where they may only read, developers otherwise. */
export async function createIdentities(
  { service, world, issuer }: Stage,
  owner: TestUser,
  tokens: TokenIds,
): Promise<Caller[]> {
  const result: Caller[] = []
  for (const scopeName of scopeNames) {
    for (const permission of ['read', 'read-write'] as const) {
      const [name, limit] = [`${permission} identity for ${scopeName}`, scopeOf(world, scopeName)]
      const body = { issuer: issuer.url, subject: name, permission, scope: limit }
      const { id: actor } = await createIdentity(service, owner.session, body)
      const token = await federate(service, await issuer.sign({ sub: name }))
      const role = permission === 'read' ? 'member' : 'developer'
      const grants = [{ role, scope: everything } as const]
      const rest = { isAlive: true, kind: 'oidc', actor, permission, grants, limit, tokens } as const
      result.push({ ...rest, name, options: { token } })
    }
  }
  return result
}

/** Every kind of credential, a day later. */
export async function createExpired(service: TestService, owner: TestUser): Promise<Record<string, CallOptions>> {
  const minuteMs = 60 * 1000
  const read = await createToken(service, owner.session, { permission: 'read', expiresIn: '24h' })
  const write = await createToken(service, owner.session, { expiresIn: '24h' })
  const lasting = await createToken(service, owner.session, { expiresIn: 'never' })
  const expiredJwt = await exchange(service, lasting.token)
  service.clock.offsetMs += 24 * 60 * minuteMs - minuteMs
  const readJwt = await exchange(service, read.token)
  const writeJwt = await exchange(service, write.token)
  service.clock.offsetMs += 2 * minuteMs
  return {
    'expired session': { token: owner.session },
    'expired read token': { token: read.token },
    'expired read-write token': { token: write.token },
    'JWT of an expired read token': { token: readJwt },
    'JWT of an expired read-write token': { token: writeJwt },
    'expired JWT of a living token': { token: expiredJwt },
  }
}

export async function createRevoked(stage: Stage, owner: TestUser, tokens: TokenIds): Promise<Caller[]> {
  const { service, world } = stage
  const path = '/v1/workspace/main/tokens'
  const revoked: Record<string, CallOptions> = {}
  for (const permission of ['read', 'read-write'] as const) {
    const token = await makeToken(stage, owner, permission)
    revoked[`revoked ${permission} token`] = { token: token.token }
    revoked[`JWT of a revoked ${permission} token`] = { token: await exchange(service, token.token) }
    await service.call('DELETE', `${path}/${token.id}`, { token: owner.session })
  }
  const rotated = await makeToken(stage, owner)
  revoked['rotated token'] = { token: rotated.token }
  revoked['JWT of a rotated token'] = { token: await exchange(service, rotated.token) }
  await service.call('POST', `${path}/${rotated.id}/rotate`, { token: owner.session })
  const bound = await createToken(service, owner.session, { allowedIps: ['192.0.2.0/24'] })
  revoked['token bound to other addresses'] = { token: bound.token }
  const { workspaceId } = world
  const leaver = await addUser(service, 'leaver@example.com', { workspaceId, role: 'admin' })
  const left = await makeToken(stage, leaver)
  revoked['token of a removed member'] = { token: left.token }
  revoked['JWT of a removed member'] = { token: await exchange(service, left.token) }
  await changeMember(service, owner, leaver.memberId ?? '', 'removed')
  const quitter = await addUser(service, 'quitter@example.com', { workspaceId, role: 'admin' })
  revoked['ended session'] = { token: quitter.session }
  await service.call('POST', '/v1/auth/logout', { token: quitter.session })
  return dead(revoked, tokens)
}

/** No credential, and what only looks like one. */
export function createNobody(owner: TestUser, jwt: string, tokens: TokenIds): Caller[] {
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const hmacHeader = encode({
    alg: 'HS256',
    typ: 'JWT',
    kid: JSON.parse(Buffer.from(header, 'base64url').toString()).kid,
  })
  const hmac = createHmac('sha256', 'secret').update(`${hmacHeader}.${payload}`).digest('base64url')
  const neverIssued = createBearer(tokenPrefix)
  return dead(
    {
      'no credential': {},
      'another scheme': { headers: { authorization: `Basic ${Buffer.from('owner:password').toString('base64')}` } },
      'no value': { headers: { authorization: 'Bearer' } },
      junk: { token: 'junk' },
      'a token never issued': { token: neverIssued },
      'a token with a wrong checksum': { token: `${neverIssued.slice(0, -1)}${neverIssued.endsWith('0') ? '1' : '0'}` },
      'a session never issued': { token: createBearer(sessionPrefix) },
      'a JWT without signature': { token: `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.` },
      'a JWT signed by another algorithm': { token: `${hmacHeader}.${payload}.${hmac}` },
      'a JWT with other claims': { token: `${header}.${encode({ sub: tokens.own, exp: 9_999_999_999 })}.${signature}` },
      'a cookie that is not a session': { headers: { ...cookie('junk'), 'sec-fetch-site': 'same-origin' } },
      'a cookie with a token in it': { headers: { ...cookie(neverIssued), 'sec-fetch-site': 'same-origin' } },
      'a cookie from another site': { headers: { ...cookie(owner.session), 'sec-fetch-site': 'cross-site' } },
      'a cookie from nowhere': { headers: cookie(owner.session) },
      'a cookie beside a bad header': {
        token: 'junk',
        headers: { ...cookie(owner.session), 'sec-fetch-site': 'same-origin' },
      },
    },
    tokens,
  )
}

const cookie = (value: string) => ({ cookie: `__Host-coffer_session=${value}` })

export function dead(options: Record<string, CallOptions>, tokens: TokenIds): Caller[] {
  const rest = {
    isAlive: false,
    kind: 'session',
    permission: 'read-write',
    grants: [],
    tokens,
  } as const
  return Object.entries(options).map(([name, options]) => ({ ...rest, name, options }))
}

/** Living credentials of people who have nothing to do with the workspace, or not any more. */
export async function createStrangers({ service, world }: Stage, owner: TestUser, tokens: TokenIds): Promise<Caller[]> {
  const stranger = await addUser(service, 'stranger@example.com')
  const body = { name: 'Elsewhere', slug: 'elsewhere' }
  await service.call('POST', '/v1/workspace', { token: stranger.session, body })
  const rest = { isAlive: true, grants: [], tokens } as const
  const session = { ...rest, kind: 'session', permission: 'read-write' } as const
  const result: Caller[] = [{ ...session, name: 'owner of another workspace', options: { token: stranger.session } }]
  for (const permission of ['read', 'read-write'] as const) {
    const { token } = await createToken(service, stranger.session, { permission }, body.slug)
    const jwt = await exchange(service, token)
    result.push({
      ...rest,
      name: `${permission} token of another workspace`,
      kind: 'token',
      permission,
      options: { token },
    })
    result.push({
      ...rest,
      name: `${permission} JWT of another workspace`,
      kind: 'jwt',
      permission,
      options: { token: jwt },
    })
  }
  const homeless = await addUser(service, 'homeless@example.com')
  result.push({ ...session, name: 'person without a workspace', options: { token: homeless.session } })
  const leaver = await addUser(service, 'gone@example.com', { workspaceId: world.workspaceId, role: 'admin' })
  await changeMember(service, owner, leaver.memberId ?? '', 'removed')
  result.push({ ...session, name: 'removed member', options: { token: leaver.session } })
  return result
}
