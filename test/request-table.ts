/**
 * Requests to every endpoint of the contract for one tenant. A new endpoint needs requests here, or its permissions
 * stay untested.
 */
import type { EndpointName } from '@coffer/contract/api'
import type { Scope } from '@coffer/contract/field'
import type { oidcEndpoints } from '@coffer/contract/oidc'
import { openPolicy } from '@coffer/contract/policy'
import type { shareEndpoints } from '@coffer/contract/share'
import { newId } from '../server/src/crypto/id.ts'
import { createBearer, invitePrefix, resetPrefix } from '../server/src/crypto/token.ts'
import { everything } from '../server/src/domain/scope.ts'
import { type Ask, absentId, one, type TokenIds } from './ask.ts'
import { password } from './harness.ts'
import { secretAsks } from './secret-request.ts'
import { serviceAsks, transferAsks } from './service-request.ts'
import { syncAsks } from './sync-request.ts'
import { newIdentity, scopeNames, scopeOf, type World } from './world.ts'

/** Each request succeeds for an owner unless it declares another status. */
export function requestTable(world: World, tokens: TokenIds): Record<EndpointName, readonly Ask[]> {
  const { teams, projects, environments, device, heirId, ownerMemberId, invite } = world
  const ws = `/v1/workspace/${world.slug}`
  const project = `${ws}/project/${projects.right}`
  const environment = (id: string) => `${project}/environment/${id}`
  const tokenAsks = (end: string, body?: Ask['body']): Ask[] =>
    (['itself', 'own', 'others', 'absent'] as const).flatMap((token) => {
      const id = token === 'absent' ? absentId : tokens[token]
      if (id === undefined) return []
      return one(token, `${ws}/tokens/${id}${end}`, { token, ...(body && { body }) })
    })
  return {
    readAuthState: [one('state', '/v1/auth/state')],
    exchangeToken: [one('exchange', '/v1/auth/exchange')],
    register: [
      one('closed', '/v1/auth/register', { body: newAccount, status: 403 }),
      one('with an invite for another address', '/v1/auth/register', {
        body: { ...newAccount, inviteToken: invite.token },
        status: 403,
      }),
    ],
    login: [one('login', '/v1/auth/login', { body: { email: world.email, password } })],
    resetPassword: [
      one('malformed', '/v1/auth/password/reset', { body: { token: 'made-up', password }, status: 404 }),
      one('never issued', '/v1/auth/password/reset', {
        body: { token: createBearer(resetPrefix), password },
        status: 404,
      }),
    ],
    logout: [one('logout', '/v1/auth/logout')],
    logoutCli: [one('logout', '/v1/auth/cli/logout', { body: {} })],
    createDeviceCode: [one('begin', '/v1/auth/device/code', { body: { clientId: 'cli' } })],
    pollDevice: [
      one('unknown', '/v1/auth/device/token', { body: { clientId: 'cli', deviceCode: 'unknown' }, status: 400 }),
      one('of another client', '/v1/auth/device/token', {
        body: { clientId: 'other', deviceCode: device.deviceCode },
        status: 400,
      }),
    ],
    readDevice: [one('waiting', '/v1/auth/device/lookup', { body: { userCode: device.userCode } })],
    answerDevice: [
      one('approve', '/v1/auth/device/approve', { body: { userCode: device.userCode, approve: true } }),
      one('refuse', '/v1/auth/device/approve', { body: { userCode: device.userCode, approve: false } }),
    ],
    readMe: [one('me', '/v1/me')],
    updateMe: [
      one('rename', '/v1/me', { body: { name: 'Renamed' } }),
      one('preferences', '/v1/me', { body: { preferences: { theme: 'dark' } } }),
    ],
    readPreferences: [one('preferences', '/v1/me/preferences')],
    updatePreferences: [
      one('theme', '/v1/me/preferences', { body: { theme: 'light' } }),
      one('an absent workspace', '/v1/me/preferences', { body: { defaultWorkspace: absentId }, status: 400 }),
    ],
    changePassword: [
      one('change', '/v1/me/password', { body: { currentPassword: password, newPassword: `${password} again` } }),
    ],
    listSessions: [one('list', '/v1/me/session')],
    revokeSession: [
      one('absent', `/v1/me/session/${absentId}`, { status: 404 }),
      one('of another user', `/v1/me/session/${world.heirsSession}`, { status: 404 }),
    ],
    revokeOtherSessions: [one('all others', '/v1/me/session')],
    verifyEmail: [one('without a mail server', '/v1/me/email/verify', { status: 409 })],
    confirmEmail: [one('unknown', '/v1/me/email/confirm', { body: { token: 'cof_mail_unknown' }, status: 404 })],
    changeEmail: [
      one('without a mail server', '/v1/me/email', { body: { email: 'next@example.com', password }, status: 409 }),
    ],
    enrolTotp: [one('begin', '/v1/me/mfa/totp', { body: { password } })],
    confirmTotp: [one('not started', '/v1/me/mfa/totp/confirm', { body: { code: '123456' }, status: 409 })],
    removeTotp: [one('not enrolled', '/v1/me/mfa/totp', { body: { code: '123456', password }, status: 404 })],
    listWorkspaces: [one('list', '/v1/workspace')],
    createWorkspace: [one('create', '/v1/workspace', { body: { name: 'Fresh', slug: 'fresh' } })],
    readWorkspace: [one('by slug', ws), one('by id', `/v1/workspace/${world.workspaceId}`)],
    updateWorkspace: [one('rename', ws, { body: { name: 'Renamed' } })],
    deleteWorkspace: [one('delete', ws, { body: { password } })],
    handOverWorkspace: [
      one('to a member', `${ws}/owner`, { body: { memberId: heirId, password } }),
      one('to an absent member', `${ws}/owner`, { body: { memberId: absentId, password }, into: absentId }),
    ],
    listMembers: [one('list', `${ws}/rbac`)],
    createInvite: [
      ...scopeNames.map((name) => one(`for ${name}`, `${ws}/rbac`, { body: newInvite(scopeOf(world, name)) })),
      one('for an empty scope', `${ws}/rbac`, { body: newInvite({ ...everything, all: false }), status: 400 }),
      one('for an absent project', `${ws}/rbac`, {
        body: newInvite({ ...everything, all: false, projects: [absentId] }),
        status: 400,
      }),
      one('of a member', `${ws}/rbac`, { body: { ...newInvite(everything), email: world.email }, status: 409 }),
    ],
    updateMember: [
      one('a member', `${ws}/rbac/${heirId}`, {
        body: { role: 'admin', scope: sentScope(scopeOf(world, 'right environment')) },
      }),
      one('an invite', `${ws}/rbac/${invite.id}`, { body: { role: 'admin' } }),
      one('the owner', `${ws}/rbac/${ownerMemberId}`, { body: { role: 'developer' }, status: 409 }),
      one('an absent member', `${ws}/rbac/${absentId}`, { body: { role: 'admin' }, into: absentId }),
    ],
    removeMember: [
      one('a member', `${ws}/rbac/${heirId}`),
      one('an invite', `${ws}/rbac/${invite.id}`),
      one('the owner', `${ws}/rbac/${ownerMemberId}`, { status: 409 }),
      one('an absent member', `${ws}/rbac/${absentId}`, { into: absentId }),
    ],
    resetMemberMfa: [
      one('a member without one', `${ws}/rbac/${heirId}/mfa`, { status: 409 }),
      one('the owner', `${ws}/rbac/${ownerMemberId}/mfa`, { status: 403 }),
      one('an invite', `${ws}/rbac/${invite.id}/mfa`, { status: 404 }),
      one('an absent member', `${ws}/rbac/${absentId}/mfa`, { status: 404 }),
    ],
    resendInvite: [
      one('an invite', `${ws}/rbac/${invite.id}/resend`),
      one('an accepted one', `${ws}/rbac/${heirId}/resend`, { status: 409 }),
      one('absent', `${ws}/rbac/${absentId}/resend`, { into: absentId }),
    ],
    lookUpInvite: [
      one('an invite', '/v1/workspace/invite/lookup', { body: { token: invite.token }, isQuestion: true }),
      one('malformed', '/v1/workspace/invite/lookup', { body: { token: 'made-up' }, status: 404 }),
      one('never issued', '/v1/workspace/invite/lookup', { body: { token: createBearer(invitePrefix) }, status: 404 }),
    ],
    acceptInvite: inviteAsks('accept', invite.token),
    declineInvite: inviteAsks('decline', invite.token),
    listTeams: [one('list', `${ws}/team`)],
    createTeam: [one('create', `${ws}/team`, { body: { name: 'Fresh' } })],
    updateTeam: [
      one('with projects', `${ws}/team/${teams.right}`, { body: { name: 'Renamed' }, on: teams.right }),
      one('without projects', `${ws}/team/${teams.empty}`, { body: { name: 'Renamed' }, on: teams.empty }),
      one('absent', `${ws}/team/${absentId}`, { body: { name: 'Renamed' }, on: absentId }),
    ],
    deleteTeam: [
      one('with projects', `${ws}/team/${teams.right}`, { on: teams.right, status: 409 }),
      one('without projects', `${ws}/team/${teams.empty}`, { on: teams.empty }),
      one('absent', `${ws}/team/${absentId}`, { on: absentId }),
    ],
    listProjects: [one('list', `${ws}/project/`)],
    createProject: [teams.right, teams.wrong, absentId].map((teamId) =>
      one(`in team ${teamId}`, `${ws}/project`, { body: { name: 'Fresh', slug: 'fresh', teamId }, into: teamId }),
    ),
    readProject: [
      one('by id', project, { on: projects.right }),
      one('by slug', `${ws}/project/right`, { on: projects.right }),
      one('a neighbour', `${ws}/project/${projects.other}`, { on: projects.other }),
      one('absent', `${ws}/project/${absentId}`, { on: absentId }),
    ],
    updateProject: [
      one('rename', project, { body: { name: 'Renamed' }, on: projects.right }),
      one('move', project, { body: { teamId: teams.wrong }, on: projects.right, into: teams.wrong }),
      one('move to an absent team', project, { body: { teamId: absentId }, on: projects.right, into: absentId }),
      one('a neighbour', `${ws}/project/other`, { body: { slug: 'moved' }, on: projects.other }),
    ],
    deleteProject: [
      one('delete', project, { on: projects.right }),
      one('absent', `${ws}/project/absent`, { on: absentId }),
    ],
    listEnvironments: [
      one('list', `${project}/environment`, { on: projects.right }),
      one('of a neighbour', `${ws}/project/other/environment/`, { on: projects.other }),
    ],
    createEnvironment: [one('create', `${project}/environment`, { body: { name: 'fresh' }, on: projects.right })],
    updateEnvironment: [
      one('right', environment(environments.right), { body: { name: 'renamed' }, on: environments.right }),
      one('sibling', environment(environments.sibling), {
        body: { hasPersonalOverrides: true },
        on: environments.sibling,
      }),
      // The environment exists, but not in this project.
      one('misplaced', environment(environments.wrong), { body: { name: 'renamed' }, on: absentId }),
    ],
    deleteEnvironment: [
      one('right', environment(environments.right), { on: environments.right }),
      one('sibling', environment(environments.sibling), { on: environments.sibling }),
      one('misplaced', environment(environments.wrong), { on: absentId }),
    ],
    ...secretAsks(world),
    ...shareAsks(world),
    ...syncAsks(world),
    listTokens: [one('list', `${ws}/tokens?limit=200`)],
    createToken: (['read', 'read-write'] as const).flatMap((permission) =>
      scopeNames.flatMap((name) =>
        [false, true].map((mayAdminister) => {
          const newToken = {
            permission,
            scope: scopeOf(world, name),
            ...(mayAdminister && ({ mayAdminister } as const)),
          }
          const mark = mayAdminister ? { mayAdminister, password } : {}
          const body = { name: 'fresh', expiresIn: '24h', permission, scope: sentScope(newToken.scope), ...mark }
          const what = `${permission} for ${name}${mayAdminister ? ' that may administer' : ''}`
          return one(what, `${ws}/tokens`, { body, newToken })
        }),
      ),
    ),
    createCliToken: [environments.right, environments.wrong, absentId].map((environmentId) =>
      one(`for ${environmentId}`, `${ws}/tokens/cli`, { body: { environmentId }, into: environmentId }),
    ),
    rotateToken: tokenAsks('/rotate', { graceSeconds: 60 }),
    revokeToken: tokenAsks(''),
    ...identityAsks(world),
    ...serviceAsks(world),
    transferToken: transferAsks(world),
    readPolicy: [one('read', `${ws}/policy`)],
    updatePolicy: [one('open', `${ws}/policy`, { body: { ...openPolicy } })],
    explainAccess: [one('the owner', `${ws}/explain?actor=${world.email}&action=workspace:read`)],
    listAccess: [one('all', `${ws}/access`)],
    listAudit: [
      one('page', `${ws}/audit`),
      one('of a project', `${ws}/audit?project=${projects.right}`),
      one('of an environment', `${ws}/audit?environment=${environments.right}`),
      one('of an entity', `${ws}/audit?entity=${teams.right}&limit=5`),
      one('as NDJSON', `${ws}/audit?format=ndjson&entity=${teams.right}`),
    ],
    verifyAudit: [one('verify', `${ws}/audit/verify`)],
  }
}

function identityAsks(world: World): Record<keyof typeof oidcEndpoints, readonly Ask[]> {
  const list = `/v1/workspace/${world.slug}/oidc`
  const identity = `${list}/${world.identityId}`
  const absent = `${list}/${absentId}`
  const [body, into] = [{ name: 'Renamed' }, absentId]
  const { scope: _all, ...rest } = newIdentity
  const scope = { environments: [world.environments.right] }
  // The token is malformed, so the issuer is not called.
  const test = { body: { token: 'none' }, isQuestion: true } as const
  return {
    exchangeIdentity: [
      one('refused', '/v1/auth/oidc/exchange', { body: { token: 'none', workspaceId: 'nobodys' }, status: 401 }),
    ],
    listIdentities: [one('list', list)],
    createIdentity: [
      one('for everything', list, { body: newIdentity }),
      one('for one environment', list, { body: { ...rest, permission: 'read', scope } }),
    ],
    listIdentityPresets: [one('list', `${list}/preset`)],
    readIdentity: [one('one', identity), one('absent', absent, { into })],
    updateIdentity: [one('rename', identity, { body }), one('absent', absent, { body, into })],
    deleteIdentity: [one('delete', identity), one('absent', absent, { into })],
    testIdentity: [one('test', `${identity}/test`, test), one('absent', `${absent}/test`, { ...test, into })],
  }
}

function shareAsks(world: World): Record<keyof typeof shareEndpoints, readonly Ask[]> {
  const { projects, secrets, environments, share } = world
  const { right, sibling, wrong } = environments
  const on = projects.right
  const list = `/v1/workspace/${world.slug}/project/${on}/secret-share`
  const expiresIn = 300
  const of = (what: string, id: string, environmentId: string, more: Partial<Ask>) =>
    one(what, list, { on, ...more, body: { secrets: [{ id, environmentId }], expiresIn } })
  const zeros = (byteCount: number) => Buffer.alloc(byteCount).toString('base64url')
  const envelope = { ciphertext: zeros(284), commit: zeros(32), linkProofHash: zeros(32) }
  const isAboutShare = true
  return {
    createShare: [
      one('a text', list, { on, body: { content: 'fresh', expiresIn } }),
      one('an envelope', list, { on, body: { envelope, expiresIn } }),
      of('of one', secrets.shared, right, { into: right }),
      of('of a sibling', secrets.shared, sibling, { into: sibling }),
      of('misplaced', secrets.shared, wrong, { into: absentId }),
      of('of another project', secrets.wrong, right, { into: right, status: 404 }),
      of('in the trash', secrets.trashed, right, { into: right, status: 404 }),
    ],
    listShares: [one('list', list, { on })],
    revokeShare: [
      one('the owner’s', `${list}/${share.id}`, { on, isAboutShare }),
      one('absent', `${list}/${absentId}`, { on, into: absentId }),
    ],
    listShareViews: [
      one('of the owner’s', `${list}/${share.id}/view`, { on, isAboutShare }),
      one('absent', `${list}/${absentId}/view`, { on, into: absentId }),
    ],
    readShareMeta: [
      one('meta', `/v1/share/${share.token}/meta`),
      one('absent', '/v1/share/absent/meta', { status: 404 }),
    ],
    openShare: [
      one('view', `/v1/share/${share.token}/view`, { body: {} }),
      one('absent', '/v1/share/absent/view', { body: {}, status: 404 }),
    ],
  }
}

/** Throws for an endpoint without requests. */
export function requestsTo(table: Partial<Record<string, readonly Ask[]>>, name: EndpointName): readonly Ask[] {
  const asks = table[name]
  if (!asks || asks.length === 0) throw new Error(`${name} has no requests: add some to test/request-table.ts`)
  return asks
}

const newAccount = { email: 'newcomer@example.com', name: 'Newcomer', password }

const newInvite = (scope: Scope) => ({ email: 'fresh@example.com', role: 'admin', scope: sentScope(scope) })

/** No caller has the invited address. */
const inviteAsks = (answer: 'accept' | 'decline', token: string) => [
  one('for another address', `/v1/workspace/invite/${answer}`, { body: { token }, status: 403 }),
  one('malformed', `/v1/workspace/invite/${answer}`, { body: { token: 'made-up' }, status: 404 }),
  one('never issued', `/v1/workspace/invite/${answer}`, { body: { token: createBearer(invitePrefix) }, status: 404 }),
]

/** As a client would send it: without empty lists. */
function sentScope({ all, ...lists }: Scope): Record<string, unknown> {
  return all ? { all } : Object.fromEntries(Object.entries(lists).filter(([, ids]) => ids.length > 0))
}

/** A slug that does not exist. */
export const absentSlug = `absent-${newId().slice(-6)}`
