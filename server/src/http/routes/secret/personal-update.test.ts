/** An update changes the rows that it lists, and no other row of any person. */
import type { AuditVerdict } from '@coffer/contract/audit'
import type { Secret } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createToken, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createPersonalPlaces } from '../../../../../test/personal-place.ts'
import type { RawDatabase } from '../../../../../test/raw-database.ts'
import { times } from '../../../../../test/tier.ts'

const { start, stop, addPerson, newPlace, send, create, setOwn } = createPersonalPlaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let developer: TestUser
let member: TestUser

beforeAll(async () => {
  ;({ service, raw, owner, developer, member } = await start())
})
afterAll(stop)

type Row = { environmentId: string; isPersonal: boolean; value: string }

test('an update by any caller leaves every row that it does not list unchanged, byte for byte', async () => {
  const place = await newPlace()
  const scope = { all: false, teams: [], projects: [], environments: [place.dev, place.staging] }
  const narrow = await addPerson('narrow@example.com', 'developer', scope)
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  const { dev, staging, production } = place
  const all = [dev, staging, production]
  const callers = [
    { token: owner.session, userId: owner.id, reach: all, mayShare: true, isPerson: true },
    { token: developer.session, userId: developer.id, reach: all, mayShare: true, isPerson: true },
    { token: member.session, userId: member.id, reach: all, mayShare: false, isPerson: true },
    { token: narrow.session, userId: narrow.id, reach: [dev, staging], mayShare: true, isPerson: true },
    { token, userId: owner.id, reach: [dev], mayShare: true, isPerson: false },
  ]
  await create(place, { A: 's', B: 's' }, all)
  for (const user of [owner, developer, member, narrow]) {
    for (const key of ['A', 'B']) {
      for (const id of [dev, staging]) expect((await setOwn(place, user, user.email, key, id)).status).toBe(200)
    }
  }
  const { body: listed } = await send<Secret[]>('GET', place.secret)
  const idOf = (key: string) => listed.find(({ name }) => name === key)?.id ?? ''
  async function snapshot(): Promise<Map<string, string>> {
    const rows = await raw.query(
      `select secret_id, environment_id, owner_id, version, sealed, updated_at
      from secret_value where secret_id in (?, ?)`,
      [idOf('A'), idOf('B')],
    )
    return new Map(
      rows.map(({ secret_id, environment_id, owner_id, version, sealed, updated_at }) => [
        `${secret_id} ${environment_id} ${owner_id}`,
        `${version} ${updated_at} ${sealed instanceof Uint8Array ? Buffer.from(sealed).toString('hex') : 'gone'}`,
      ]),
    )
  }
  function expectedStatus(caller: (typeof callers)[number], rows: readonly Row[], present: Secret['values']): number {
    const isChange = ({ environmentId, isPersonal, value }: Row) =>
      !isPersonal &&
      !present.some((row) => !row.isPersonal && row.environmentId === environmentId && row.value === value)
    if (rows.some(({ environmentId }) => !caller.reach.includes(environmentId))) return 404
    if (!caller.isPerson && rows.some(({ isPersonal }) => isPersonal)) return 403
    if (rows.some(({ isPersonal, environmentId }) => isPersonal && environmentId === production)) return 400
    return !caller.mayShare && rows.some(isChange) ? 403 : 200
  }
  const row = fc.record({
    environmentId: fc.constantFrom(...all),
    isPersonal: fc.boolean(),
    value: fc.oneof(fc.constant('s'), fc.string({ unit: 'grapheme', maxLength: 8 })),
  })
  const rows = fc.uniqueArray(row, {
    minLength: 1,
    maxLength: 4,
    selector: ({ environmentId, isPersonal }) => `${environmentId} ${isPersonal}`,
  })
  const update = fc.record({ caller: fc.constantFrom(...callers), key: fc.constantFrom('A', 'B'), rows })
  await fc.assert(
    fc.asyncProperty(update, async ({ caller, key, rows: values }) => {
      const before = await snapshot()
      const path = `${place.secret}/${key}`
      const { body: present } = await send<Secret>('GET', path)
      const answer = await send('PUT', path, { token: caller.token, body: { name: key, values } })
      expect(answer.status, answer.text).toBe(expectedStatus(caller, values, present.values))
      const after = await snapshot()
      const written = answer.status === 200 ? values : []
      const names = written.map(
        ({ environmentId, isPersonal }) => `${idOf(key)} ${environmentId} ${isPersonal ? caller.userId : ''}`,
      )
      for (const name of names) {
        before.delete(name)
        after.delete(name)
      }
      expect(after).toEqual(before)
      const { body } = await send<Secret>('GET', path, { token: caller.token })
      for (const wanted of written) expect(body.values).toContainEqual(expect.objectContaining(wanted))
    }),
    { numRuns: times(80, 600) },
  )
  const verdict = await send<AuditVerdict>('GET', '/v1/workspace/main/audit/verify')
  expect(verdict.body.ok).toBe(true)
})
