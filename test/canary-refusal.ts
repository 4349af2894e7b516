/** Requests that are refused or fail, each with secrets in places where an error might quote them. */
import { expect } from 'vitest'
import { createBearer, sessionPrefix, tokenPrefix } from '../server/src/crypto/token.ts'
import type { Canaries, Options } from './canary.ts'

export function createRefusals(canaries: Canaries) {
  const { service, raw, secrets, canary, plantBearer, send, sendFor, sendBytes } = canaries

  async function failInEveryWay(session: string, token: string, jwt: string): Promise<void> {
    const login = '/v1/auth/login'
    for (const email of ['owner@example.com', 'nobody@example.com']) {
      await sendFor(401, 'POST', login, { body: { email, password: canary(`wrong password of ${email}`) } })
    }
    // Typing the password into the wrong field is a common slip.
    const slipped = canary('password typed as the address')
    await sendFor(401, 'POST', login, { body: { email: `${slipped}@example.com`, password: canary('no password') } })
    await sendFor(400, 'POST', login, { body: { email: canary('password that is no address'), password: 'x' } })
    for (let tries = 0; tries < 11; tries++) {
      await send('POST', login, { body: { email: 'locked@example.com', password: canary(`guess ${tries}`) } })
    }
    const secret = () => canary(`a value in a refused request ${secrets.size}`)
    const body = (extra: object) => ({ email: 'x@example.com', name: 'X', password: secret(), ...extra })
    await sendFor(400, 'POST', '/v1/auth/register', { body: body({ password: secret().slice(0, 8) }) })
    await sendFor(400, 'POST', '/v1/auth/register', { body: body({ note: secret() }) })
    await sendFor(400, 'POST', '/v1/auth/register', { body: body({ email: { address: secret() } }) })
    await sendFor(400, 'POST', '/v1/auth/register', {
      body: body({ workspace: { name: secret(), slug: `${secret()}!` } }),
    })
    await sendFor(409, 'POST', '/v1/auth/register', { body: body({ email: 'owner@example.com' }) })
    const headers = { 'content-type': 'application/json' }
    for (const text of [
      `{"password": "${secret()}"`,
      `${secret()}`,
      `"${secret()}"`,
      `["${secret()}"]`,
      `{"email":"x@example.com","password":"${secret()}","password":}`,
      `{"__proto__":{"x":"${secret()}"},"email":"x@example.com","password":"${secret()}"}`,
      `{"constructor":{"prototype":"${secret()}"}}`,
      `{"email":"\\ud800","password":"${secret()}"}`,
      `{"email":"x@example.com\\u0000","password":"${secret()}"}`,
    ]) {
      await sendFor(400, 'POST', login, { body: text, headers })
    }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    await sendFor(415, 'POST', login, { body: `password=${secret()}`, headers: form })
    await sendFor(415, 'POST', login, { body: secret(), headers: { 'content-type': 'text/plain' } })
    await sendFor(415, 'POST', login, { body: secret(), headers: { ...headers, 'content-encoding': 'gzip' } })
    await sendFor(413, 'POST', login, { body: `"${secret()}${'x'.repeat(9 * 1024 * 1024)}"`, headers })

    await sendFor(401, 'GET', '/v1/me', { token: secret() })
    await sendFor(401, 'GET', '/v1/me', { headers: { authorization: `Basic ${secret()}` } })
    const unknown = [createBearer(tokenPrefix), createBearer(sessionPrefix)].map((one, at) =>
      plantBearer(`unknown ${at}`, one),
    )
    for (const value of unknown) await sendFor(401, 'GET', '/v1/me', { token: value })
    await sendFor(401, 'GET', '/v1/me', { token: `${jwt}A` })
    await sendFor(401, 'GET', '/v1/me', { token: jwt.replace('.', '.A') })
    await sendFor(401, 'GET', `/v1/me?access_token=${token}`)
    await sendFor(404, 'GET', `/v1/${secret()}`, { token: session })
    await sendFor(404, 'GET', `/${secret()}?token=${token}`)
    await sendFor(404, 'GET', `/v1/workspace/${secret().slice(0, 40)}`, { token: session })
    await sendFor(400, 'GET', `/v1/workspace/%ff${secret()}`, { token: session })
    await sendFor(400, 'GET', `/v1/workspace/main/audit?cursor=${secret()}`, { token: session })
    await sendFor(200, 'GET', `/v1/workspace/main/audit?q=${secret()}&actor=${secret()}&unknown=${token}`, {
      token: session,
    })
    await sendFor(400, 'GET', `/v1/workspace/main/audit?from=${secret()}`, { token: session })
    await sendFor(200, 'GET', `/v1/me?token=${secret()}`, {
      token: session,
      headers: { 'x-api-key': secret(), referer: `https://example.com/?token=${token}`, cookie: `other=${secret()}` },
    })
    const wish = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '30d' }
    const tokens = '/v1/workspace/main/tokens'
    await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, expiresIn: secret() } })
    await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, scope: { projects: [secret()] } } })
    await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, allowedIps: [secret()] } })
    await sendFor(403, 'POST', tokens, { token, body: wish })
    await sendFor(404, 'DELETE', `${tokens}/01890000-0000-7000-8000-000000000000`, { token: session })
    await sendFor(409, 'POST', '/v1/workspace/main/team', { token: session, body: { name: 'Everyone' } })
    await sendBytes(`GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret()}\r\n${secret()}\r\n\r\n`)
    await sendBytes(`${secret()} / HTTP/9.9\r\n\r\n`)
    await sendBytes(`GET /v1/me HTTP/1.1\r\nHost: x\r\nX: ${secret()}${'x'.repeat(70_000)}\r\n\r\n`)
  }

  async function expectBroken(method: string, path: string, options: Options): Promise<void> {
    expect((await send(method, path, options)).status).toBeGreaterThanOrEqual(500)
  }

  /** Provokes driver errors, which quote statements, parameters and whole rows. */
  async function breakTheStore(session: string): Promise<void> {
    await raw.query('alter table audit_entry rename to audit_entry_away')
    const wrong = { email: 'owner@example.com', password: canary('password while the trail was away') }
    await expectBroken('POST', '/v1/auth/login', { body: wrong })
    const token = plantBearer('token while the trail was away', createBearer(tokenPrefix))
    await sendFor(401, 'GET', '/v1/me', { token })
    await expectBroken('POST', '/v1/auth/register', {
      body: { email: 'late@example.com', name: 'Late', password: canary('password that was never kept') },
    })
    await raw.query('alter table audit_entry_away rename to audit_entry')
    await raw.query('alter table token rename to token_away')
    service.app.services.credentials.clear()
    await expectBroken('GET', '/v1/me', {
      token: plantBearer('token while tokens were away', createBearer(tokenPrefix)),
    })
    await raw.query('alter table token_away rename to token')
    await raw.restoring(['account'], async () => {
      await raw.query('update account set created_at = 1')
      service.app.services.credentials.clear()
      const tampered = { email: 'owner@example.com', password: canary('password of a tampered account') }
      await expectBroken('POST', '/v1/auth/login', { body: tampered })
      await expectBroken('GET', '/v1/me', { token: session })
    })
    await sendFor(200, 'GET', '/v1/me', { token: session })
  }

  return { failInEveryWay, breakTheStore }
}
