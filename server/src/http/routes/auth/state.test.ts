/** GET /v1/auth/state: the facts that a sign-in page shows before anybody has signed in. */
import { readFileSync } from 'node:fs'
import type { AuthState } from '@coffer/contract/auth'
import { expect, test } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'

const { version } = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'))

const read = (service: TestService, headers: Record<string, string> = {}) =>
  service.call<AuthState>('GET', '/v1/auth/state', { headers })

test('says without a credential that the first account is missing, and later that it exists', async () => {
  const service = await startService()
  const rest = { signup: 'invite', passwordLogin: true, providers: [], version }
  const before = { needsSetup: true, needsSetupCode: true }
  const after = { needsSetup: false, needsSetupCode: false }
  expect(await read(service)).toMatchObject({ status: 200, body: { ...before, ...rest } })
  const { session } = await registerOwner(service)
  expect((await read(service)).body).toEqual({ ...after, ...rest })
  // The answer is the same for everybody, whatever credential they send.
  for (const token of [session, 'cof_live_wrong']) {
    expect((await service.call('GET', '/v1/auth/state', { token })).body).toEqual({ ...after, ...rest })
  }
  await service.stop()
})

test.each<[string, Record<string, string>]>([
  ['a local request', {}],
  ['a request through a proxy', { 'x-forwarded-for': '192.0.2.1' }],
  ['a request to another host name', { host: 'coffer.example.com' }],
])('says that the first account needs the setup code, never which: %s', async (_what, headers) => {
  const service = await startService({ COFFER_SETUP_CODE: '' })
  const { body, text } = await read(service, headers)
  expect(body).toMatchObject({ needsSetup: true, needsSetupCode: true })
  expect(text).not.toContain(service.app.services.setupCode.value)
  await service.stop()
})

test('shows open sign-up, and counts against the rate limit', async () => {
  const service = await startService({ COFFER_SIGNUP: 'open', COFFER_RATE_LIMIT: '2' })
  expect((await read(service)).body.signup).toBe('open')
  expect((await read(service)).status).toBe(200)
  expect((await read(service)).status).toBe(429)
  await service.stop()
})
