/** The setup code for the first account. The startup log is tested in operator/first-account.test.ts. */
import { expect, test } from 'vitest'
import { password, startService } from '../../../../../test/harness.ts'

const refusal =
  'setupCode: the first account needs the code in COFFER_SETUP_CODE or, if that is not set, the one in the startup log.'
const body = { email: 'owner@example.com', name: 'Owner', password }

test.each<[string, Record<string, string>]>([
  ['the public URL is not local', { COFFER_PUBLIC_URL: 'https://coffer.example.com' }],
  ['a proxy on the same host is trusted', { COFFER_TRUSTED_PROXIES: '127.0.0.1' }],
  ['the operator has set a code', { COFFER_SETUP_CODE: 'chosen-by-hand' }],
])('the setup code is required on loopback, too, if %s', async (_what, settings) => {
  const service = await startService(settings)
  const { value } = service.app.services.setupCode
  const register = (setupCode?: string) =>
    service.call('POST', '/v1/auth/register', { body: setupCode === undefined ? body : { ...body, setupCode } })
  for (const wrong of [undefined, 'wrong', `${value}x`]) {
    expect(await register(wrong)).toMatchObject({ status: 403, body: { message: refusal } })
  }
  expect((await register(value)).status).toBe(201)
  await service.stop()
})

test('a proxied request to a loopback service needs the setup code, a direct one does not', async () => {
  const service = await startService()
  const register = (headers: Record<string, string>, more = {}) =>
    service.call('POST', '/v1/auth/register', { headers, body: { ...body, ...more } })
  const { port } = new URL(service.url)
  for (const headers of [
    { host: 'coffer.example.com' },
    { host: `coffer.example.com:${port}` },
    { host: '192.0.2.1' },
    { host: 'localhost.example.com' },
    { forwarded: 'for=192.0.2.1' },
    { via: '1.1 proxy' },
    { 'x-forwarded-for': '127.0.0.1' },
    { 'X-Forwarded-Host': 'localhost' },
    { 'x-forwarded-proto': 'https' },
    { 'x-real-ip': '127.0.0.1' },
    { 'cf-connecting-ip': '192.0.2.1' },
  ]) {
    const refused = await register(headers)
    expect(refused, JSON.stringify(headers)).toMatchObject({ status: 403, body: { message: refusal } })
  }
  expect(service.app.services.setupCode.isChosen).toBe(false)
  expect((await register({ host: `localhost:${port}` })).status).toBe(201)
  await service.stop()
})

test('the setup code allows registration through a proxy that the settings do not name', async () => {
  const service = await startService()
  const setupCode = service.app.services.setupCode.value
  const headers = { host: 'coffer.example.com', 'x-forwarded-for': '192.0.2.1' }
  const made = await service.call('POST', '/v1/auth/register', { headers, body: { ...body, setupCode } })
  expect(made.status).toBe(201)
  await service.stop()
})
