/** `COFFER_TOKEN_PREFIX` sets the first word of new tokens; a token is valid with any first word. */
import type { Token } from '@coffer/contract/token'
import { expect, test } from 'vitest'
import {
  createDatabase,
  createToken,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestService,
} from '../../../../../test/harness.ts'

const tokens = '/v1/workspace/main/tokens'
const statusOf = async ({ call }: TestService, token: string) => (await call('GET', '/v1/me', { token })).status

test('new tokens start with the configured word, older tokens stay valid, and all are listed with that word', async () => {
  const database = await createDatabase({ hasSchema: true })
  const first = await openService(database.settings, database.dataDir)
  const { session } = await registerOwner(first)
  const before = await createToken(first, session, { name: 'before' })
  await first.stop()
  const service = await openService({ ...database.settings, COFFER_TOKEN_PREFIX: 'acme' }, database.dataDir)
  const after = await createToken(service, session, { name: 'after' })
  expect(after.token).toMatch(/^acme_live_[0-9A-Za-z]{36}$/)
  expect(after.prefix).toBe(after.token.slice(0, 'acme_live_'.length + 4))
  const { body } = await service.call<Token[]>('GET', tokens, { token: session })
  const shown = before.prefix.replace('cof', 'acme')
  expect(body.map(({ name, prefix }) => ({ name, prefix }))).toEqual([
    { name: 'after', prefix: after.prefix },
    { name: 'before', prefix: shown },
  ])
  for (const { token } of [before, after]) {
    const rest = token.slice(token.indexOf('_'))
    for (const word of ['cof', 'acme', 'other', '42']) expect(await statusOf(service, word + rest), word).toBe(200)
    for (const word of ['', 'c', 'COF', 'a-b', 'abcdefghijklm'])
      expect(await statusOf(service, word + rest), word).toBe(401)
    expect(await statusOf(service, await exchange(service, token))).toBe(200)
  }
  const rotated = await service.call<{ token: string }>('POST', `${tokens}/${before.id}/rotate`, { token: session })
  expect(rotated.body.token).toMatch(/^acme_live_/)
  expect(await statusOf(service, rotated.body.token.replace('acme', 'cof'))).toBe(200)
  for (const word of ['cof', 'acme', 'other']) {
    expect(await statusOf(service, before.token.replace('cof', word)), word).toBe(401)
  }
  await service.stop()
  await database.drop()
})

test('a revoked token is invalid with every first word, even one that was just used', async () => {
  const service = await startService({ COFFER_TOKEN_PREFIX: 'acme' })
  const { session } = await registerOwner(service)
  const { id, token } = await createToken(service, session)
  const spellings = ['acme', 'cof', 'other'].map((word) => token.replace('acme', word))
  for (const value of spellings) expect(await statusOf(service, value)).toBe(200)
  await service.call('DELETE', `${tokens}/${id}`, { token: session })
  for (const value of spellings) expect(await statusOf(service, value)).toBe(401)
  await service.stop()
})
