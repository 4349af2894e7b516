/** A broad scenario that plants a secret of every kind: passwords, sessions, tokens, invites, second factors and keys. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SignedIn } from '@coffer/contract/auth'
import type { DeviceCode } from '@coffer/contract/device'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { RecoveryCodes, TotpEnrolment } from '@coffer/contract/mfa'
import type { IssuedToken } from '@coffer/contract/token'
import { expect } from 'vitest'
import { asKey, associatedData, open } from '../server/src/crypto/envelope.ts'
import { masterWrapKey } from '../server/src/crypto/keyring.ts'
import { hotp, totpStep } from '../server/src/crypto/totp.ts'
import { asOperator } from '../server/src/domain/context.ts'
import { hourMs } from '../server/src/domain/time.ts'
import { rotateRoot, rotateWorkspaceKey } from '../server/src/domain/workspace/key.ts'
import { flushUsage } from '../server/src/jobs/usage.ts'
import { readBase32 } from './authenticator.ts'
import type { Canaries } from './canary.ts'
import { createRefusals } from './canary-refusal.ts'
import type { Cell } from './raw-database.ts'
import { setupCode } from './setup-code.ts'

type Signed = { readonly session: string; readonly token: string; readonly jwt: string }

export async function runCanaryScenario(canaries: Canaries): Promise<void> {
  const { service, raw, plant, canary, plantBearer, plantJwt, send, sendFor } = canaries
  const { failInEveryWay, breakTheStore } = createRefusals(canaries)

  const { session, token, jwt } = await liveThrough()
  await useOwnAccount()
  await failInEveryWay(session, token, jwt)
  await breakTheStore(session)
  await turnTheKeys(token)
  await flushUsage(service.app.services)
  await unwrapKeys()

  async function liveThrough(): Promise<Signed> {
    const password = canary('password of the owner')
    const register = { email: 'owner@example.com', name: 'Owner', password, setupCode }
    const first = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', {
      body: register,
      mayHold: ['first session'],
    })
    plantBearer('first session', first.accessToken)
    const login = { email: 'owner@example.com', password }
    const second = await sendFor<SignedIn>(200, 'POST', '/v1/auth/login', { body: login, mayHold: ['second session'] })
    const session = plantBearer('second session', second.accessToken)
    const other = { email: 'other@example.com', name: 'Other', password: canary('password of another') }
    const third = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', { body: other, mayHold: ['third session'] })
    plantBearer('third session', third.accessToken)
    await sendFor(201, 'POST', '/v1/workspace', { token: third.accessToken, body: { name: 'Other', slug: 'other' } })
    await sendFor(200, 'POST', '/v1/auth/logout', { token: first.accessToken })

    const teams = await sendFor<{ id: string }[]>(200, 'GET', '/v1/workspace/main/team', { token: session })
    const project = await sendFor<{ id: string }>(201, 'POST', '/v1/workspace/main/project', {
      token: session,
      body: { name: 'App', slug: 'app', teamId: teams[0]?.id },
    })
    const environments = await sendFor<{ id: string }[]>(200, 'GET', '/v1/workspace/main/project/app/environment', {
      token: session,
    })
    const tokens = '/v1/workspace/main/tokens'
    const wish = { name: 'ci', permission: 'read-write', scope: { all: true }, expiresIn: '30d' }
    const issue = (name: string, body: object) =>
      sendFor<IssuedToken>(201, 'POST', tokens, { token: session, body, mayHold: [name] })
    const issued = await issue('rotated token', wish)
    plantBearer('rotated token', issued.token)
    const revoked = await issue('revoked token', { ...wish, scope: { projects: [project.id] }, permission: 'read' })
    plantBearer('revoked token', revoked.token)
    const cli = await sendFor<{ token: string }>(201, 'POST', `${tokens}/cli`, {
      token: session,
      body: { environmentId: environments[0]?.id },
      mayHold: ['cli token'],
    })
    plantBearer('cli token', cli.token)
    await sendFor(200, 'GET', '/v1/me', { token: cli.token })

    const oldJwt = await swap(issued.token, 'JWT of the old value')
    const rotated = await sendFor<IssuedToken>(200, 'POST', `${tokens}/${issued.id}/rotate`, {
      token: session,
      body: { graceSeconds: 600 },
      mayHold: ['token after its rotation'],
    })
    const token = plantBearer('token after its rotation', rotated.token)
    const jwt = await swap(token, 'JWT of the new value')
    for (const value of [issued.token, oldJwt, token, jwt]) await sendFor(200, 'GET', '/v1/workspace', { token: value })
    await sendFor(200, 'DELETE', `${tokens}/${revoked.id}`, { token: session })
    await sendFor(401, 'GET', '/v1/me', { token: revoked.token })
    await sendFor(200, 'GET', '/v1/workspace', {
      headers: { cookie: `__Host-coffer_session=${session}`, 'sec-fetch-site': 'same-origin' },
    })
    await invite(session, third.accessToken)
    for (const path of [
      '',
      '/rbac',
      '/team',
      '/project',
      '/tokens',
      '/audit',
      '/audit?format=ndjson',
      '/audit/verify',
    ]) {
      await send('GET', `/v1/workspace/main${path}`, { token: session })
    }
    return { session, token, jwt }
  }

  /** Invites in every state: resent, declined, accepted, and one that stays open. */
  async function invite(session: string, invited: string): Promise<void> {
    const rbac = '/v1/workspace/main/rbac'
    const issue = async (name: string, path: string, body?: object) => {
      const options = { token: session, ...(body && { body }), mayHold: [name] }
      const issued = await sendFor<IssuedInvite>(body ? 201 : 200, 'POST', path, options)
      return { id: issued.id, token: plantBearer(name, issued.inviteToken) }
    }
    const wish = { role: 'member', scope: { all: true } }
    const first = await issue('invite', rbac, { ...wish, email: 'other@example.com' })
    const second = await issue('invite sent again', `${rbac}/${first.id}/resend`)
    const answer = (status: number, what: string, token: string) =>
      sendFor(status, 'POST', `/v1/workspace/invite/${what}`, { token: invited, body: { token } })
    await answer(404, 'accept', first.token)
    await answer(200, 'decline', second.token)
    const third = await issue('invite after a decline', `${rbac}/${first.id}/resend`)
    await answer(200, 'accept', third.token)
    const open = await issue('open invite', rbac, { ...wish, email: 'absent@example.com' })
    await answer(403, 'accept', open.token)
    await sendFor(401, 'GET', '/v1/me', { token: open.token })
    const password = canary('password of a refused registration')
    const registration = { email: 'somebody@example.com', name: 'Somebody', password, inviteToken: open.token }
    await sendFor(403, 'POST', '/v1/auth/register', { body: registration })
  }

  /** A second factor is set up and used, a device signs in, and the password is changed. */
  async function useOwnAccount(): Promise<void> {
    const secret = canary('password of a careful person')
    const account = { email: 'careful@example.com', password: secret }
    const first = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', {
      body: { ...account, name: 'Careful' },
      mayHold: ['session of a careful person'],
    })
    const token = plantBearer('session of a careful person', first.accessToken)
    const enrolment = await sendFor<TotpEnrolment>(200, 'POST', '/v1/me/mfa/totp', {
      token,
      body: { password: secret },
      mayHold: ['secret of an app'],
    })
    plant('secret of an app', enrolment.secret)
    plant('secret of an app, its bytes', readBase32(enrolment.secret))
    const names = Array.from({ length: 10 }, (_, at) => `recovery code ${at}`)
    const { recoveryCodes } = await sendFor<RecoveryCodes>(200, 'POST', '/v1/me/mfa/totp/confirm', {
      token,
      body: { code: hotp(readBase32(enrolment.secret), totpStep(Date.now())) },
      mayHold: names,
    })
    for (const [at, recovery] of recoveryCodes.entries()) {
      plant(names[at] ?? '', recovery)
      plant(`${names[at]} without dashes`, recovery.replaceAll('-', ''))
    }
    const login = '/v1/auth/login'
    await sendFor(401, 'POST', login, { body: account })
    await sendFor(401, 'POST', login, { body: { ...account, code: canary('wrong code') } })
    const second = await sendFor<SignedIn>(200, 'POST', login, {
      body: { ...account, code: recoveryCodes[0] },
      mayHold: ['session by a recovery code'],
    })
    plantBearer('session by a recovery code', second.accessToken)
    const clientId = 'cli'
    const codes = await sendFor<DeviceCode>(200, 'POST', '/v1/auth/device/code', {
      body: { clientId },
      mayHold: ['device code'],
    })
    const deviceCode = plant('device code', codes.deviceCode)
    await sendFor(400, 'POST', '/v1/auth/device/token', { body: { clientId, deviceCode } })
    await sendFor(400, 'POST', '/v1/auth/device/token', {
      body: { clientId, deviceCode: canary('unknown device code') },
    })
    await sendFor(200, 'POST', '/v1/auth/device/lookup', { token, body: { userCode: codes.userCode } })
    await sendFor(200, 'POST', '/v1/auth/device/approve', { token, body: { userCode: codes.userCode, approve: true } })
    const cli = await sendFor<{ accessToken: string }>(200, 'POST', '/v1/auth/device/token', {
      body: { clientId, deviceCode },
      mayHold: ['session of a device'],
    })
    plantBearer('session of a device', cli.accessToken)
    const change = { currentPassword: canary('wrong current password'), newPassword: canary('new password') }
    await sendFor(403, 'PUT', '/v1/me/password', { token, body: change })
    await sendFor(200, 'PUT', '/v1/me/password', { token, body: { ...change, currentPassword: secret } })
    await sendFor(200, 'GET', '/v1/me/session', { token })
    const removal = { code: canary('wrong code for removal'), password: canary('wrong password for removal') }
    await sendFor(403, 'DELETE', '/v1/me/mfa/totp', { token, body: removal })
    await sendFor(403, 'DELETE', '/v1/me/mfa/totp', { token, body: { ...removal, password: change.newPassword } })
  }

  async function swap(token: string, name: string): Promise<string> {
    const mayHold = [`${name}, its signature`]
    const answer = await sendFor<{ accessToken: string }>(200, 'POST', '/v1/auth/exchange', { token, mayHold })
    return plantJwt(name, answer.accessToken)
  }

  async function turnTheKeys(token: string): Promise<void> {
    await unwrapKeys()
    const ctx = asOperator(service.app.services)
    await rotateRoot(ctx, () => undefined, 0)
    await rotateWorkspaceKey(ctx, 'main', () => undefined, 0)
    // The token is found under the old root, and stored under the new one from here on.
    await sendFor(200, 'GET', '/v1/me', { token })
    await swap(token, 'JWT of the new signing key')
    service.clock.offsetMs = 13 * hourMs
    await sendFor(200, 'GET', '/v1/me', { token })
    service.clock.offsetMs = 0
  }

  /** Unwraps every key of the installation, so that the tests can search for it. */
  async function unwrapKeys(): Promise<void> {
    const text = readFileSync(join(service.dataDir, 'master.key'), 'utf8').trim()
    const master = Buffer.from(text, text.length === 64 ? 'hex' : 'base64')
    expect(master.length).toBe(32)
    plant('master key', master)
    plant('key that wraps the root keys', masterWrapKey(master).export())
    const bytes = (cell: Cell | undefined) => (cell instanceof Uint8Array ? cell : Buffer.alloc(0))
    for (const row of await raw.query('select * from root_key')) {
      const id = String(row.id)
      plant(`root key ${id}`, open(masterWrapKey(master), associatedData('root-key', id), bytes(row.wrapped)))
      const root = service.app.services.keys.keyring.find(id)
      if (!root) throw new Error('the ring does not know this root')
      for (const purpose of ['wrap', 'token', 'rowMac', 'audit'] as const) {
        plant(`${purpose} key of root ${id}`, root[purpose].export())
      }
      for (const key of await raw.query('select * from workspace_key where root_id = ?', [id])) {
        const workspaceId = String(key.workspace_id)
        const place = associatedData('workspace-key', workspaceId, Number(key.version), id)
        const workspaceKey = open(root.wrap, place, bytes(key.wrapped))
        plant(`key ${String(key.version)} of workspace ${workspaceId}`, workspaceKey)
        const where = 'where workspace_id = ? and workspace_key_version = ?'
        for (const inner of await raw.query(`select * from environment_key ${where}`, [
          workspaceId,
          Number(key.version),
        ])) {
          const environmentId = String(inner.environment_id)
          const innerPlace = associatedData('environment-key', workspaceId, environmentId, Number(inner.version))
          const opened = open(asKey(workspaceKey), innerPlace, bytes(inner.wrapped))
          plant(`key of environment ${environmentId}`, opened)
        }
      }
      for (const key of await raw.query('select * from signing_key where root_id = ?', [id])) {
        const place = associatedData('signing-key', String(key.id), String(key.purpose), id)
        // The seed is the last 32 bytes of the PKCS #8 encoding.
        plant(
          `${String(key.purpose)} signing key ${String(key.id)}`,
          open(root.wrap, place, bytes(key.wrapped)).subarray(-32),
        )
      }
    }
  }
}
