/** doctor lists the tokens of before that used calls which take a session or a marked token now. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../../test/command.ts'
import {
  createDatabase,
  createToken,
  type Database,
  openService,
  password,
  registerOwner,
} from '../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'

const dayMs = 24 * 60 * 60 * 1_000
const main = '/v1/workspace/main'

let database: Database
let raw: RawDatabase
const ids = new Map<string, string>()

/** Tokens of before are made by moving the entries of a marked token to them. */
beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  const service = await openService(database.settings, database.dataDir)
  const { session } = await registerOwner(service)
  const mark = { mayAdminister: true, expiresIn: '24h', password } as const
  const marked = await createToken(service, session, { name: 'marked', ...mark })
  for (const name of ['used', 'old', 'revoked', 'harmless']) {
    ids.set(name, (await createToken(service, session, { name, expiresIn: 'never' })).id)
  }
  const invite = { email: 'ann@example.com', role: 'member', scope: { all: true } }
  const invited = await service.call<{ id: string }>('POST', `${main}/rbac`, { token: marked.token, body: invite })
  expect(invited.status, invited.text).toBe(201)
  const refused = await service.call('DELETE', `${main}/rbac/${invited.body.id}/mfa`, { token: marked.token })
  expect(refused.status).toBe(404)
  const harmless = await createToken(service, session, { name: 'harmless' })
  ids.set('harmless', harmless.id)
  await service.call('POST', `${main}/team`, { token: harmless.token, body: { name: 'Team' } })
  await service.call('POST', `${main}/tokens/${harmless.id}/rotate`, { token: harmless.token })
  await service.call('DELETE', `${main}/tokens/${ids.get('revoked')}`, { token: session })
  raw = await openRaw({ settings: database.settings, dataDir: database.dataDir })
  await service.stop()
})
afterAll(async () => {
  await raw.close()
  await database.drop()
})

async function find(): Promise<{ level: string; what: string; fix: string | null }> {
  const { out } = await runHere(['doctor', '--json'], database.settings)
  const findings: { check: string; level: string; what: string; fix: string | null }[] = JSON.parse(out)
  const found = findings.find(({ check }) => check === 'tokens that administer')
  if (!found) throw new Error('doctor does not look')
  return found
}

const giveTo = (name: string, ageMs: number) =>
  raw.query(`update audit_entry set actor_id = ?, at = ? where actor_type = 'token' and entity_type = 'invite'`, [
    ids.get(name) ?? '',
    Date.now() - ageMs,
  ])

test('a marked token, and what every token may do, is not listed', async () => {
  expect(await find()).toMatchObject({
    level: 'ok',
    what: 'no token without the mark used these calls in the last 30 days',
  })
})

test('a token of before is listed with its workspace and the last time, and with what to do', async () => {
  await giveTo('used', dayMs)
  const { level, what, fix } = await find()
  expect(level).toBe('note')
  expect(what).toContain(`"used" of "main" (${ids.get('used')}, last 20`)
  expect(what).not.toContain('harmless')
  expect(fix).toContain('coffer token create --may-administer')
})

test.each([
  ['a use of 31 days ago', 'old', 31 * dayMs],
  ['a token that has ended', 'revoked', dayMs],
])('%s is not listed', async (_what, name, ageMs) => {
  await giveTo(name, ageMs)
  expect((await find()).level).toBe('ok')
})
