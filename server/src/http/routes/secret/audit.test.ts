/** No value is returned or changed while the audit trail cannot be written. */
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { engine, startService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import {
  asker,
  canary,
  createFixture,
  type Fixture,
  harmless,
  path,
  promotion,
  reads,
  writes,
} from '../../../../../test/unrecorded.ts'

describe('with a broken table', () => {
  let fixture: Fixture
  let raw: RawDatabase
  beforeAll(async () => {
    fixture = await createFixture(await startService())
    raw = await openRaw(fixture.service)
  })
  afterAll(async () => {
    await raw.close()
    await fixture.service.stop()
  })

  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await raw.query(statement)
  }
  const missing = (table: string): Break => ({
    cut: [`alter table ${table} rename to elsewhere`],
    mend: [`alter table elsewhere rename to ${table}`],
  })
  const refusing = (table: string, event: string): Break =>
    engine === 'sqlite'
      ? {
          cut: [`create trigger refuse before ${event} on ${table} begin select raise(abort, 'no'); end`],
          mend: ['drop trigger refuse'],
        }
      : {
          cut: [
            `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`,
            `create trigger refuse before ${event} on ${table} for each row execute function refuse()`,
          ],
          mend: [`drop trigger refuse on ${table}`, 'drop function refuse()'],
        }
  type Break = { readonly cut: readonly string[]; readonly mend: readonly string[] }
  /** Reads and batched changes go to `audit_batch`, a single change to `audit_entry`; both move the same head. */
  const breaks: [what: string, breakage: () => Break, stopped: { reads: boolean; writes: boolean }][] = [
    ['audit_batch is missing', () => missing('audit_batch'), { reads: true, writes: false }],
    ['audit_batch refuses inserts', () => refusing('audit_batch', 'insert'), { reads: true, writes: false }],
    ['audit_entry is missing', () => missing('audit_entry'), { reads: false, writes: true }],
    ['audit_entry refuses inserts', () => refusing('audit_entry', 'insert'), { reads: false, writes: true }],
    ['audit_head is missing', () => missing('audit_head'), { reads: true, writes: true }],
    ['audit_head refuses updates', () => refusing('audit_head', 'update'), { reads: true, writes: true }],
  ]

  test.each(breaks)(
    '%s: requests that need it are 503, others succeed, and all succeed after the repair',
    async (_what, breakage, stopped) => {
      const { ask, expectAll, expectRefused, state, expectSoundTrail } = asker(fixture)
      // Fills the response cache: cached responses must not be sent either.
      await expectAll(reads, 200)
      await expectAll(reads, 200)
      const known = await ask(['GET', `${path}/secret`])
      const etag = known.headers.get('etag') ?? ''
      expect(known.text).toContain(canary)
      const before = await state()

      const { cut, mend } = breakage()
      await run(cut)
      try {
        if (stopped.reads) await expectRefused(reads)
        else await expectAll(reads, 200)
        if (stopped.writes) await expectRefused([promotion, ...writes])
        await expectAll(harmless, 200)
        if (stopped.reads) {
          // A 304 reveals nothing to a caller who already has the value.
          const same = await ask(['GET', `${path}/secret`], { 'if-none-match': etag })
          expect({ status: same.status, text: same.text }).toEqual({ status: 304, text: '' })
          const other = await ask(['GET', `${path}/secret`], { 'if-none-match': '"another"' })
          expect({ status: other.status, hasValue: other.text.includes(canary) }).toEqual({
            status: 503,
            hasValue: false,
          })
        }
      } finally {
        await run(mend)
      }
      expect(await state()).toEqual(before)
      await expectAll(reads, 200)
      await expectAll(reads, 200)
      expect(
        (await ask(['PUT', `${path}/secret/A/value`, { environmentId: 'staging', value: `${canary} ${_what}` }]))
          .status,
      ).toBe(200)
      await expectSoundTrail()
    },
  )

  test('a promotion records the read in the transaction that copies the values', async () => {
    const { ask, expectSoundTrail } = asker(fixture)
    await run(missing('audit_batch').cut)
    const promoted = await ask(promotion)
    await run(missing('audit_batch').mend)
    expect(promoted.status, promoted.text).toBe(200)
    const entries = await ask(['GET', '/v1/workspace/main/audit?limit=2'])
    const [view, change] = entries.body as AuditEntry[]
    expect(view).toMatchObject({ action: 'VIEW', after: { keys: ['A'], promotedTo: 'staging' } })
    expect(view?.environmentId).toBe(fixture.project.environments.find(({ name }) => name === 'development')?.id)
    expect(change).toMatchObject({ action: 'UPDATE', requestId: view?.requestId })
    await expectSoundTrail()
  })

  test('each of many concurrent reads is recorded, in one chain that verifies', async () => {
    const { ask, expectSoundTrail } = asker(fixture)
    const views = async () =>
      (await ask(['GET', '/v1/workspace/main/audit?action=VIEW&limit=200&entity=A'])).body as AuditEntry[]
    const [last] = await views()
    await Promise.all(Array.from({ length: 100 }, () => ask(['GET', `${path}/secret/A`])))
    const after = (await views()).filter(({ sequence }) => sequence > (last?.sequence ?? 0))
    expect(after).toHaveLength(100)
    expect(after[0]).toMatchObject({ entity: { type: 'secret', name: 'A' }, after: { keys: ['A'] } })
    await expectSoundTrail()
  })

  test('each of many concurrent changes is recorded with its effect, in one chain that verifies', async () => {
    const { ask, expectSoundTrail } = asker(fixture)
    const values = Array.from({ length: 60 }, (_, index) => `${canary} of many ${index}`)
    const environmentOf = (index: number) => (index % 2 === 0 ? 'staging' : 'development')
    const write = (value: string, index: number) =>
      ask(['PUT', `${path}/secret/A/value`, { environmentId: environmentOf(index), value }])
    const answers = await Promise.all(values.map(write))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const trail = await ask(['GET', '/v1/workspace/main/audit?action=UPDATE&limit=60'])
    const entries = trail.body as AuditEntry[]
    // Entries that were batched into one row share its hash.
    expect(new Set(entries.map(({ hash }) => hash)).size).toBeLessThan(entries.length)
    const made = entries.map(({ entity, after, requestId }) => ({ entity, after, requestId }))
    for (const [index, { headers, body }] of answers.entries()) {
      const { version } = body as { version: number }
      expect(made).toContainEqual({
        entity: expect.objectContaining({ type: 'secret', name: 'A' }),
        after: { changes: [{ key: 'A', environment: environmentOf(index), status: 'updated', version }] },
        requestId: headers.get('x-request-id'),
      })
    }
    expect(trail.text).not.toContain(canary)
    await expectSoundTrail()
  })

  test.each([
    '',
    '{',
    'null',
    '[]',
    '{"shared":[],"reads":[]}',
    '{"shared":[],"reads":[1]}',
    '{"shared":[],"reads":[[0,"x",1,"x"]]}',
    '{"shared":[[1,2,3]],"reads":[[0,"x",1,"x"]]}',
    '{"shared":[["","","","","","","",null,null,"","","success",null]],"reads":[[0,"x",1,"x"]]}',
    '{"isOneLink":true,"shared":[["","","","","","","",null,null,"","","success",null]],"entries":[[0,"x",1,"x",1]]}',
  ])('reads overwritten with %s are reported missing, and the other entries are shown', async (entries) => {
    const { ask } = asker(fixture)
    await ask(['GET', `${path}/secret/A`])
    const [row] = await raw.query('select last_sequence, first_sequence from audit_batch order by last_sequence desc')
    await raw.restoring(['audit_batch'], async () => {
      await raw.query('update audit_batch set entries = ? where last_sequence = ?', [entries, row?.last_sequence ?? 0])
      const verdict = await ask(['GET', '/v1/workspace/main/audit/verify'])
      expect(verdict.body).toMatchObject({
        ok: false,
        firstBroken: row?.first_sequence,
        reason: 'Entries are missing.',
      })
      expect((await ask(['GET', '/v1/workspace/main/audit?q=a'])).status).toBe(200)
    })
    await asker(fixture).expectSoundTrail()
  })
})
