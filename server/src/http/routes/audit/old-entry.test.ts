/** Entries written without ids, or damaged since, are found by their names and stop no search. */
import type { AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAuditedSteps, path } from '../../../../../test/audited-step.ts'
import type { TestService } from '../../../../../test/harness.ts'
import type { RawDatabase } from '../../../../../test/raw-database.ts'
import type { SecretProject } from '../../../../../test/secret-project.ts'

const { start, stop, secretIds, find, findAll, named } = createAuditedSteps()
let service: TestService
let raw: RawDatabase
let session: string
let project: SecretProject
let other: SecretProject

beforeAll(async () => {
  ;({ service, raw, session, project, other } = await start())
})
afterAll(stop)

describe('old entries, which have names and no ids', () => {
  /** Removes the ids, as entries used to be written. */
  async function asOldEntries(check: () => Promise<void>): Promise<void> {
    const ids = /,?\\*"environmentIds\\*":\[[^\]]*\]|\\*"id\\*":\\*"[^"]*",/g
    await raw.restoring(['audit_entry', 'audit_batch'], async () => {
      for (const { sequence, details } of await raw.query('select sequence, details from audit_entry')) {
        const old = String(details).replace(ids, '')
        await raw.query('update audit_entry set details = ? where sequence = ?', [old, sequence ?? 0])
      }
      for (const { last_sequence, entries } of await raw.query('select last_sequence, entries from audit_batch')) {
        const old = String(entries).replace(ids, '')
        await raw.query('update audit_batch set entries = ? where last_sequence = ?', [old, last_sequence ?? 0])
      }
      expect(JSON.stringify(await find({ limit: '200' }))).not.toContain('environmentIds')
      await check()
    })
  }

  test('are found by the name of the environment within its project, and by the keys of the secret', async () => {
    const seen = async () => ({
      production: await named({ environment: project.idOf('production') }),
      elsewhere: await named({ environment: other.idOf('production') }),
      secret: await named({ entity: secretIds.get('D') ?? '' }),
    })
    const now = await seen()
    await asOldEntries(async () => {
      const then = await seen()
      expect(then).toEqual({ ...now, production: now.production.filter((what) => what !== 'rename') })
    })
    const verdict = await service.call<AuditVerdict>('GET', `${path}/verify`, { token: session })
    expect(verdict.body).toMatchObject({ ok: true })
  })

  test.each(['', '{', '[]', 'null', '1', '{"after":1}', '{"after":{"keys":{},"changes":[null,1],"environments":[1]}}'])(
    'stop no search and are listed even if overwritten with %j',
    async (details) => {
      await raw.restoring(['audit_entry'], async () => {
        await raw.query(`update audit_entry set details = ? where entity_type = 'secrets'`, [details])
        for (const query of [{ q: 'nothing' }, { entity: 'nothing' }, { environment: project.idOf('staging') }]) {
          await find({ ...query, action: 'DELETE' })
        }
        // The damaged entries are still listed, with their remaining fields.
        for (const { before, after } of await findAll({ entity: 'secrets' })) {
          expect([before, after].filter((one) => one !== undefined && Object(one) !== one)).toEqual([])
        }
      })
    },
  )
})
