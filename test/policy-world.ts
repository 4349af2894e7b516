/** A service behind a proxy, with mail and an issuer, for tests of policies: each test has a workspace of its own. */
import type { DeviceCode } from '@coffer/contract/device'
import type { Role } from '@coffer/contract/field'
import { type ChangedPolicy, openPolicy, type PolicyChange } from '@coffer/contract/policy'
import type { IssuedToken } from '@coffer/contract/token'
import type { Workspace } from '@coffer/contract/workspace'
import { expect } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  createToken,
  exchange,
  offline,
  password,
  registerOwner,
  startService,
  type TestUser,
} from './harness.ts'
import { createIdentity, federate, loopbackAllowed, startIssuer } from './issuer.ts'
import { startMailServer } from './mail-server.ts'

/** Every kind of credential of one person. */
export const personalWays = ['browser session', 'CLI session', 'static token', 'cli token', 'JWT of a token'] as const
/** Machines have neither a second factor nor an address to confirm. */
export const machineWays = ['service token', 'OIDC identity'] as const
export type Way = (typeof personalWays)[number] | (typeof machineWays)[number]

export type PolicyWorld = Awaited<ReturnType<typeof startPolicyWorld>>
type PolicyWorkspace = Awaited<ReturnType<PolicyWorld['newWorkspace']>>

/** An address outside of every list in these tests. */
export const outside = '203.0.113.9'
export const inside = '198.51.100.7'

export async function startPolicyWorld() {
  const mailServer = await startMailServer()
  const service = await startService(
    {
      ...loopbackAllowed,
      COFFER_TRUSTED_PROXIES: '127.0.0.1',
      COFFER_EXCHANGE_RATE_LIMIT: '0',
      COFFER_SYNC: 'off',
      COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}`,
      COFFER_MAIL_FROM: 'coffer@example.com',
    },
    offline,
  )
  const issuer = await startIssuer(() => service.app.services.now())
  await registerOwner(service)
  let made = 0

  async function confirmEmail(user: TestUser): Promise<void> {
    const asked = await service.call('POST', '/v1/me/email/verify', { token: user.session })
    expect(asked.status, asked.text).toBe(200)
    const mail = await mailServer.mailTo(user.email)
    const [token] = /cof_mail_\w+/.exec(mail.text) ?? []
    const answer = await service.call('POST', '/v1/me/email/confirm', { token: user.session, body: { token } })
    expect(answer.status, answer.text).toBe(200)
  }

  async function newWorkspace() {
    const slug = `policy-${++made}`
    const owner = await addUser(service, `owner@${slug}.example.com`)
    const created = await service.call<Workspace>('POST', '/v1/workspace', {
      token: owner.session,
      body: { name: slug, slug },
    })
    expect(created.status, created.text).toBe(201)
    const workspaceId = created.body.id
    const project = await createProject(service, owner.session, 'api', { workspace: slug })
    const environmentId = project.environments[0]?.id ?? ''
    const root = `/v1/workspace/${slug}`
    let people = 0

    const put = (change: Partial<PolicyChange>, session = owner.session, ip?: string) =>
      service.call<ChangedPolicy & { message: string }>('PUT', `${root}/policy`, {
        token: session,
        body: { ...openPolicy, ...change },
        ...(ip !== undefined && { headers: from(ip) }),
      })

    async function createServiceToken(): Promise<string> {
      const name = `deploy-${newSubject()}`
      const account = await service.call<{ id: string }>('POST', `${root}/service-account`, {
        token: owner.session,
        body: { name, grants: [{ role: 'developer', scope: { all: true } }] },
      })
      expect(account.status, account.text).toBe(201)
      const issued = await service.call<IssuedToken>('POST', `${root}/service-account/${account.body.id}/tokens`, {
        token: owner.session,
        body: { name, permission: 'read', scope: { all: true }, expiresIn: '30d' },
      })
      expect(issued.status, issued.text).toBe(201)
      return issued.body.token
    }

    return {
      id: workspaceId,
      slug,
      root,
      owner,
      project,
      environmentId,
      put,
      async set(change: Partial<PolicyChange>, session = owner.session, ip?: string): Promise<ChangedPolicy> {
        const answer = await put(change, session, ip)
        expect(answer.status, answer.text).toBe(200)
        return answer.body
      },
      join: (role: Role = 'developer') =>
        addUser(service, `person-${++people}@${slug}.example.com`, { workspaceId, role }),
      token: (session: string, body = {}) => createToken(service, session, body, slug),
      /** Reads the secrets of the project. */
      read: (token: string, ip?: string): Promise<Answer<{ message: string }>> =>
        service.call('GET', `${root}/project/api/secret?environmentId=${environmentId}`, {
          token,
          ...(ip !== undefined && { headers: from(ip) }),
        }),
      async ways(person: TestUser): Promise<Record<Way, string>> {
        const { token } = await createToken(service, person.session, {}, slug)
        const cli = await service.call<{ token: string }>('POST', `${root}/tokens/cli`, {
          token: person.session,
          body: { environmentId },
        })
        const subject = `job-${newSubject()}`
        await createIdentity(service, owner.session, { issuer: issuer.url, subject }, slug)
        return {
          'browser session': person.session,
          'CLI session': await logInDevice(person.session),
          'static token': token,
          'cli token': cli.body.token,
          'JWT of a token': await exchange(service, token),
          'service token': await createServiceToken(),
          'OIDC identity': await federate(service, await issuer.sign({ sub: subject }), slug),
        }
      },
    }
  }

  let subjects = 0
  const newSubject = () => ++subjects

  async function logInDevice(session: string): Promise<string> {
    const clientId = 'coffer-cli'
    const { body: codes } = await service.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId } })
    const approval = { userCode: codes.userCode, approve: true }
    await service.call('POST', '/v1/auth/device/approve', { token: session, body: approval })
    const polled = await service.call<{ accessToken: string }>('POST', '/v1/auth/device/token', {
      body: { clientId, deviceCode: codes.deviceCode },
    })
    expect(polled.status, polled.text).toBe(200)
    return polled.body.accessToken
  }

  return {
    service,
    issuer,
    newWorkspace,
    confirmEmail,
    /** A session of a command line, approved by another session. */
    logInDevice,
    /** A new session, for tests that move the clock past the end of the first one. */
    async logIn(person: TestUser, { code, ip }: { code?: string | undefined; ip?: string } = {}): Promise<string> {
      const answer = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
        body: { email: person.email, password, ...(code !== undefined && { code }) },
        ...(ip !== undefined && { headers: from(ip) }),
      })
      expect(answer.status, answer.text).toBe(200)
      return answer.body.accessToken
    },
    async stop() {
      await service.stop()
      await issuer.stop()
      await mailServer.stop()
    },
  }
}

export const from = (ip: string) => ({ 'x-forwarded-for': ip })

/** Statuses of the same request with each credential. */
export async function statuses(
  workspace: Pick<PolicyWorkspace, 'read'>,
  credentials: Readonly<Record<string, string>>,
  ip?: string,
): Promise<Record<string, string>> {
  const result: Record<string, string> = {}
  for (const [way, token] of Object.entries(credentials)) {
    const { status, body } = await workspace.read(token, ip)
    result[way] = status === 200 ? '200' : `${status} ${body.message}`
  }
  return result
}
