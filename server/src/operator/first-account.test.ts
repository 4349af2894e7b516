/** The first account: the setup code in the log protects it, and only one is made without an invite. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type Database, engine, openService, password, registerOwner } from '../../../test/harness.ts'
import { serve } from '../../../test/process.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { sql } from '../store/engine/sql.ts'

const registration = (email = 'owner@example.com', more: object = {}) => ({
  body: { email, name: 'Owner', password, ...more },
})

describe('the first account', () => {
  let database: Database
  beforeEach(async () => {
    database = await createDatabase({ hasSchema: true })
  })
  afterEach(() => database.drop())

  const everywhere = {
    COFFER_SETUP_CODE: '',
    COFFER_HOST: '0.0.0.0',
    COFFER_PLAIN_HTTP: 'on',
    COFFER_PUBLIC_URL: 'https://coffer.example.com',
  }
  const codeIn = (messages: string[]) => messages.flatMap((message) => /^Setup code: (\S+)$/.exec(message)?.[1] ?? [])

  test('needs the setup code, which is logged once and is the same after a restart', async () => {
    const before = await serve({ ...database.settings, ...everywhere })
    await before.stop()
    const service = await serve({ ...database.settings, ...everywhere })
    expect(codeIn(service.messages())).toEqual(codeIn(before.messages()))
    const codes = codeIn(service.messages())
    expect(codes).toHaveLength(1)
    const [setupCode = ''] = codes
    expect(setupCode).toMatch(/^[\w-]{16,}$/)
    // Once as it is, for the command line, and once behind the # of the link, which browsers send to nobody.
    expect(service.program.out().split(setupCode)).toHaveLength(3)
    expect(service.messages()).toContain(`  https://coffer.example.com/setup#code=${setupCode}`)
    const message =
      'setupCode: the first account needs the code in COFFER_SETUP_CODE or, if that is not set, in the link printed at the start and in the file setup-code of the data folder.'
    for (const more of [
      {},
      { setupCode: 'wrong' },
      { setupCode: `${setupCode}x` },
      { setupCode: setupCode.slice(1) },
    ]) {
      const refused = await service.call('POST', '/v1/auth/register', registration(undefined, more))
      expect(refused).toMatchObject({ status: 403, body: { message } })
    }
    const made = await service.call('POST', '/v1/auth/register', registration(undefined, { setupCode }))
    expect(made.status).toBe(201)
    const second = await service.call('POST', '/v1/auth/register', registration('second@example.com', { setupCode }))
    expect(second.status).toBe(403)
    await service.stop()

    const again = await serve({ ...database.settings, ...everywhere })
    expect(codeIn(again.messages())).toEqual([])
    await again.stop()
  })

  // These depend on the settings only; the test above shows that the store counts accounts.
  if (engine === 'sqlite') {
    test('needs the code on localhost too, where the link holds it', async () => {
      const service = await serve({ ...database.settings, COFFER_HOST: 'localhost', COFFER_SETUP_CODE: '' })
      const [setupCode = ''] = codeIn(service.messages())
      expect(service.messages()).toContain(`  http://localhost:${service.port}/setup#code=${setupCode}`)
      expect((await service.call('POST', '/v1/auth/register', registration())).status).toBe(403)
      const made = await service.call('POST', '/v1/auth/register', registration(undefined, { setupCode }))
      expect(made.status).toBe(201)
      await service.stop()
    })

    test('needs the code that the operator has chosen, if there is one', async () => {
      const settings = { ...database.settings, ...everywhere, COFFER_SETUP_CODE: 'chosen-by-hand' }
      const service = await serve(settings)
      expect(service.program.out()).not.toContain('chosen-by-hand')
      expect(codeIn(service.messages())).toEqual([])
      expect(service.messages()).toContain('Setup code: the one in COFFER_SETUP_CODE')
      expect(service.messages()).toContain('  https://coffer.example.com/setup')
      expect((await service.call('POST', '/v1/auth/register', registration())).status).toBe(403)
      const made = await service.call(
        'POST',
        '/v1/auth/register',
        registration(undefined, { setupCode: 'chosen-by-hand' }),
      )
      expect(made.status).toBe(201)
      await service.stop()
    })
  }

  test('is the only one without an invite', async () => {
    const service = await openService(database.settings, database.dataDir)
    await registerOwner(service)
    expect(await service.call('POST', '/v1/auth/register', registration('second@example.com'))).toMatchObject({
      status: 403,
      body: { message: 'Registration is closed: ask an admin of your workspace for an invite.' },
    })
    await service.stop()
  })

  test('is not the only one if sign-up is open', async () => {
    const service = await openService({ ...database.settings, COFFER_SIGNUP: 'open' }, database.dataDir)
    await registerOwner(service)
    const second = await service.call<SignedIn>('POST', '/v1/auth/register', registration('second@example.com'))
    expect(second.status).toBe(201)
    const workspaces = await service.call('GET', '/v1/workspace', { token: second.body.accessToken })
    expect(workspaces.body).toEqual([])
    await service.stop()
  })

  test('is created once for 20 concurrent registrations', async () => {
    const service = await openService(database.settings, database.dataDir)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        service.call('POST', '/v1/auth/register', registration(`person-${index}@example.com`, { setupCode })),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 403)])
    const { engine: store } = service.app.services
    expect(await store.one(sql`select count(*) as count from account`)).toEqual({ count: 1 })
    await service.stop()
  })
})
