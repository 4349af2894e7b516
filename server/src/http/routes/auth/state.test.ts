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
  const rest = { needsSetupCode: false, signup: 'invite', passwordLogin: true, providers: [], version }
  expect(await read(service)).toMatchObject({ status: 200, body: { needsSetup: true, ...rest } })
  const { session } = await registerOwner(service)
  expect((await read(service)).body).toEqual({ needsSetup: false, ...rest })
  // The answer is the same for everybody, whatever credential they send.
  for (const token of [session, 'cof_live_wrong']) {
    expect((await service.call('GET', '/v1/auth/state', { token })).body).toEqual({ needsSetup: false, ...rest })
  }
  await service.stop()
})

test.each<[string, Record<string, string>, Record<string, string>, boolean]>([
  ['a local request to a local service', {}, {}, false],
  ['a request through a proxy', {}, { 'x-forwarded-for': '192.0.2.1' }, true],
  ['a request to another host name', {}, { host: 'coffer.example.com' }, true],
  ['a public URL', { COFFER_PUBLIC_URL: 'https://coffer.example.com' }, {}, true],
  ['a code that the operator chose', { COFFER_SETUP_CODE: 'chosen-by-hand' }, {}, true],
])('tells each client whether it needs the setup code: %s', async (_what, settings, headers, needsSetupCode) => {
  const service = await startService(settings)
  const { body, text } = await read(service, headers)
  expect(body).toMatchObject({ needsSetup: true, needsSetupCode })
  expect(text).not.toContain(service.app.services.setupCode.value)
  await registerOwner(service)
  expect((await read(service, headers)).body).toMatchObject({ needsSetup: false, needsSetupCode: false })
  await service.stop()
})

test('shows open sign-up, and counts against the rate limit', async () => {
  const service = await startService({ COFFER_SIGNUP: 'open', COFFER_RATE_LIMIT: '2' })
  expect((await read(service)).body.signup).toBe('open')
  expect((await read(service)).status).toBe(200)
  expect((await read(service)).status).toBe(429)
  await service.stop()
})
