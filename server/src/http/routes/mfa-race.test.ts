/** Concurrent uses of one code, on two nodes where the engine serves several. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { setUpTotp } from '../../../../test/authenticator.ts'
import {
  createDatabase,
  engine,
  openService,
  password,
  registerOwner,
  type TestService,
} from '../../../../test/harness.ts'

beforeAll(() => {
  // Start in the middle of a TOTP step, so that a code does not expire between reading and sending it.
  vi.useFakeTimers({ toFake: ['Date'], now: Math.floor(Date.now() / 30_000) * 30_000 + 15_000 })
})
afterAll(() => {
  vi.useRealTimers()
})

const login = (node: TestService, email: string, code: string | undefined) =>
  node.call('POST', '/v1/auth/login', { body: { email, password, code } })

test('one of 20 concurrent uses of one code wins (on two nodes with PostgreSQL)', async () => {
  const database = await createDatabase()
  const here = await openService(database.settings, database.dataDir)
  // SQLite serves a single process, so both names are the same node.
  const there = engine === 'postgres' ? await openService(database.settings, database.dataDir) : here
  try {
    const user = await registerOwner(here)
    const app = await setUpTotp(here, user.session)
    const code = app.freshCode()
    there.clock.offsetMs = here.clock.offsetMs
    for (const used of [code, app.recoveryCodes[0], app.recoveryCodes[1]]) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, at) => login(at % 2 ? here : there, user.email, used)),
      )
      const statuses = answers.map(({ status }) => status)
      expect(statuses.filter((status) => status === 200)).toHaveLength(1)
      expect(statuses.filter((status) => ![200, 401, 429].includes(status))).toEqual([])
      here.clock.offsetMs += 600_000
      there.clock.offsetMs = here.clock.offsetMs
    }
    const removals = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        (at % 2 ? here : there).call('DELETE', '/v1/me/mfa/totp', {
          token: user.session,
          body: { code: app.recoveryCodes[2], password },
        }),
      ),
    )
    expect(removals.filter(({ status }) => status === 200)).toHaveLength(1)
  } finally {
    if (there !== here) await there.stop()
    await here.stop()
    await database.drop()
  }
})
