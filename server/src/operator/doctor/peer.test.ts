/** `doctor` asks other servers, and none of them can hang it. */
import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requirePrograms } from '../../../../test/debian-package.ts'
import { findingsOf } from '../../../../test/doctor.ts'
import { createDatabase, type Database } from '../../../../test/harness.ts'
import { startMailServer } from '../../../../test/mail-server.ts'
import { freePort } from '../../../../test/postgres.ts'
import { startRedis } from '../../../../test/redis.ts'

await requirePrograms('redis-server')

let database: Database
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const only = (check: string, settings: Record<string, string>) => findingsOf(database, check, settings)

test('Redis that answers is well, and one that does not is wrong', async () => {
  const redis = await startRedis()
  try {
    const settings = { COFFER_REDIS_URL: redis.url }
    expect(await only('Redis', settings)).toEqual([{ level: 'ok', what: 'agrees with the clock of this machine' }])
    redis.freeze()
    expect(await only('Redis', settings)).toEqual([
      { level: 'wrong', what: expect.stringMatching(/^(does not answer|no result)/) },
    ])
  } finally {
    redis.thaw()
    await redis.kill()
  }
  const gone = await only('Redis', { COFFER_REDIS_URL: redis.url })
  expect(gone).toEqual([{ level: 'wrong', what: 'does not answer (ECONNREFUSED)' }])
})

test('a mail server that accepts the login is well; one that refuses it, or is silent, is wrong', async () => {
  const server = await startMailServer({
    authOptional: false,
    onAuth: ({ username, password }, _session, done) =>
      username === 'coffer' && password === 'right' ? done(null, { user: 'coffer' }) : done(new Error('hunter2')),
  })
  const at = (word: string, port = server.port) => ({ COFFER_SMTP_URL: `smtp://coffer:${word}@127.0.0.1:${port}` })
  expect(await only('mail server', at('right'))).toEqual([
    { level: 'ok', what: 'accepts the connection and the login' },
  ])
  expect(await only('mail server', at('left'))).toEqual([{ level: 'wrong', what: 'cannot be used (EAUTH)' }])
  expect(server.delivered).toEqual([])
  await server.stop()
  const silent = createServer((socket) => socket.on('error', () => undefined).resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  const port = typeof address === 'object' && address ? address.port : 0
  expect(await only('mail server', at('right', port))).toEqual([{ level: 'wrong', what: 'cannot be used (ETIMEDOUT)' }])
  silent.close()
  const nobody = await only('mail server', at('right', await freePort()))
  expect(nobody).toEqual([{ level: 'wrong', what: expect.stringMatching(/^cannot be used \(E(SOCKET|CONNECTION)\)$/) }])
})
