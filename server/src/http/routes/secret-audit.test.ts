/** What cannot be recorded does not happen: no value leaves and none is changed while the audit trail cannot be written. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Revision } from '@coffer/contract/history'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  engine,
  openService,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
} from '../../../../test/harness.ts'
import { until } from '../../../../test/program.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'

const path = '/v1/workspace/main/project/api'
const canary = 'a value that must not leave unrecorded'

type Request = readonly [method: string, path: string, body?: unknown]
type House = {
  readonly service: TestService
  readonly session: string
  readonly project: TestProject
  /** For exactly one environment. */
  readonly scoped: string
}

async function furnish(service: TestService): Promise<House> {
  const { session } = await registerOwner(service)
  const project = await createProject(service, session, 'api')
  const write = (value: string) =>
    service.call('POST', `${path}/secret`, {
      token: session,
      body: { environments: ['development', 'staging'], secrets: [{ key: 'A', value }], mode: 'upsert' },
    })
  expect((await write('the first')).status).toBe(201)
  expect((await write(canary)).status).toBe(201)
  await service.call('PUT', `${path}/secret/A/value`, {
    token: session,
    body: { environmentId: 'staging', value: `${canary} in staging` },
  })
  const scope = { all: false, teams: [], projects: [], environments: [project.environments[0]?.id ?? ''] }
  const scoped = await createToken(service, session, { permission: 'read', scope })
  return { service, session, project, scoped: scoped.token }
}

/** Every way to a value. */
const reads: readonly Request[] = [
  ['GET', `${path}/secret`],
  ['GET', `${path}/secret?environmentId=development&q=A`],
  ['GET', `${path}/secret/A`],
  ['GET', `${path}/secret/A?environmentId=staging&resolve=true`],
  ['GET', `${path}/secret/export?environmentId=staging`],
  ['GET', `${path}/secret/export?environmentId=staging&format=json`],
  ['GET', `${path}/secret/A/version/2?environmentId=staging`],
  ['GET', `${path}/secret/diff?from=development&to=staging&values=true`],
  ['GET', '/v1/secrets'],
]
const promotion: Request = ['POST', `${path}/environment/staging/promote`, { from: 'development' }]
const writes: readonly Request[] = [
  ['PUT', `${path}/secret/A/value`, { environmentId: 'development', value: 'never' }],
  ['POST', `${path}/secret`, { environments: ['development'], secrets: [{ key: 'B', value: 'never' }] }],
  ['PUT', `${path}/secret/A`, { name: 'RENAMED', values: [] }],
  ['DELETE', `${path}/secret/A`],
  ['POST', '/v1/workspace/main/team', { name: 'never' }],
]
/** What shows no values and needs no entry. */
const harmless: readonly Request[] = [
  ['GET', `${path}/secret?view=keys`],
  ['GET', `${path}/secret/A?view=keys`],
  ['GET', `${path}/secret/A/version?environmentId=staging`],
  ['GET', `${path}/secret/diff?from=development&to=staging`],
  ['GET', `${path}/secret/trash`],
  ['GET', path],
  ['GET', `${path}/environment`],
  ['GET', '/v1/workspace/main/team'],
  ['GET', '/v1/me'],
  ['GET', '/healthz'],
]

function asker({ service, session, scoped, project }: House) {
  const idOf = (name: string) => project.environments.find((environment) => environment.name === name)?.id ?? ''
  const ask = ([method, path, body]: Request, headers: Record<string, string> = {}) =>
    service.call(method, path.replace('/environment/staging/', `/environment/${idOf('staging')}/`), {
      token: path === '/v1/secrets' ? scoped : session,
      headers,
      ...(body !== undefined && { body }),
    })
  const askAll = (requests: readonly Request[]) => Promise.all(requests.map((request) => ask(request)))
  const statuses = async (requests: readonly Request[]) => (await askAll(requests)).map(({ status }) => status)
  const all = (requests: readonly Request[], status: number) => requests.map(() => status)
  return {
    ask,
    async expectAll(requests: readonly Request[], status: number) {
      expect(await statuses(requests), JSON.stringify(requests)).toEqual(all(requests, status))
    },
    /** 503 with a time to come back, and nothing of the value, also where the answer was known before. */
    async expectRefused(requests: readonly Request[]) {
      for (let again = 0; again < 2; again++) {
        for (const { status, text, headers, body } of await askAll(requests)) {
          expect(status, text).toBe(503)
          expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
          expect(headers.get('etag')).toBeNull()
          expect(Object.keys(Object(body))).toEqual(['message'])
          expect(text).not.toContain(canary.slice(0, 12))
        }
      }
    },
    state: async () => ({
      revisions: await Promise.all(
        ['development', 'staging'].map(
          async (name) => (await ask(['GET', `${path}/environment/${idOf(name)}/revision`])).body as Revision[],
        ),
      ),
      keys: (await ask(['GET', `${path}/secret?view=keys`])).text,
      teams: (await ask(['GET', '/v1/workspace/main/team'])).text,
    }),
    async expectSoundTrail() {
      const { body } = await ask(['GET', '/v1/workspace/main/audit/verify'])
      expect(body).toMatchObject<Partial<AuditVerdict>>({ ok: true })
    },
  }
}

describe('with a broken table', () => {
  let house: House
  let raw: RawDatabase
  beforeAll(async () => {
    house = await furnish(await startService())
    raw = await openRaw(house.service)
  })
  afterAll(async () => {
    await raw.close()
    await house.service.stop()
  })

  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await raw.query(statement)
  }
  const away = (table: string): Break => ({
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
  /** Reads, and changes made together, have a table of their own; a change alone has another. Both end in the same head. */
  const breaks: [what: string, breakage: () => Break, stopped: { reads: boolean; writes: boolean }][] = [
    ['the table of what is recorded together is gone', () => away('audit_batch'), { reads: true, writes: false }],
    [
      'the table of what is recorded together takes no rows',
      () => refusing('audit_batch', 'insert'),
      { reads: true, writes: false },
    ],
    ['the table of entries is gone', () => away('audit_entry'), { reads: false, writes: true }],
    ['the table of entries takes no rows', () => refusing('audit_entry', 'insert'), { reads: false, writes: true }],
    ['the heads are gone', () => away('audit_head'), { reads: true, writes: true }],
    ['the heads cannot be moved', () => refusing('audit_head', 'update'), { reads: true, writes: true }],
  ]

  test.each(breaks)(
    '%s: what would need it is 503, the rest goes on, and all is well once it is mended',
    async (_what, breakage, stopped) => {
      const { ask, expectAll, expectRefused, state, expectSoundTrail } = asker(house)
      // Answers are known by now: they must not leave from memory either.
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
          // A caller who has the value already is told no more than that it is the same.
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

  test('what is promoted is recorded as read in the very transaction that copies it', async () => {
    const { ask, expectSoundTrail } = asker(house)
    await run(away('audit_batch').cut)
    const promoted = await ask(promotion)
    await run(away('audit_batch').mend)
    expect(promoted.status, promoted.text).toBe(200)
    const entries = await ask(['GET', '/v1/workspace/main/audit?limit=2'])
    const [view, change] = entries.body as AuditEntry[]
    expect(view).toMatchObject({ action: 'VIEW', after: { keys: ['A'], promotedTo: 'staging' } })
    expect(view?.environmentId).toBe(house.project.environments.find(({ name }) => name === 'development')?.id)
    expect(change).toMatchObject({ action: 'UPDATE', requestId: view?.requestId })
    await expectSoundTrail()
  })

  test('many reads at once are recorded each, in one chain that verifies', async () => {
    const { ask, expectSoundTrail } = asker(house)
    const views = async () =>
      (await ask(['GET', '/v1/workspace/main/audit?action=VIEW&limit=200&entity=A'])).body as AuditEntry[]
    const before = await views()
    await Promise.all(Array.from({ length: 100 }, () => ask(['GET', `${path}/secret/A`])))
    const after = await views()
    expect(after).toHaveLength(before.length + 100)
    expect(after[0]).toMatchObject({ entity: { type: 'secret', name: 'A' }, after: { keys: ['A'] } })
    await expectSoundTrail()
  })

  test('many changes at once are recorded each, with what it did, in one chain that verifies', async () => {
    const { ask, expectSoundTrail } = asker(house)
    const values = Array.from({ length: 60 }, (_, index) => `${canary} of many ${index}`)
    const environmentOf = (index: number) => (index % 2 === 0 ? 'staging' : 'development')
    const write = (value: string, index: number) =>
      ask(['PUT', `${path}/secret/A/value`, { environmentId: environmentOf(index), value }])
    const answers = await Promise.all(values.map(write))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const trail = await ask(['GET', '/v1/workspace/main/audit?action=UPDATE&limit=60'])
    const entries = trail.body as AuditEntry[]
    // Some stood together in one row: they share its hash.
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
  ])('reads that somebody wrote over with %s are found missing, and the others are shown', async (entries) => {
    const { ask } = asker(house)
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
    await asker(house).expectSoundTrail()
  })
})

describe('on a full disk', () => {
  const run = promisify(execFile)
  let dataDir: string | undefined
  let service: TestService | undefined
  afterEach(async () => {
    await service?.stop()
    if (dataDir === undefined) return
    await run('umount', [dataDir])
    await rm(dataDir, { recursive: true, force: true })
  })

  test('no value leaves, what shows none goes on, and there is no need to start again once there is room', async () => {
    if (engine === 'postgres') {
      // The disk is that of another machine: a server that is full answers as one that is away.
      expect(process.env.COFFER_TEST_ENGINE).toBe('postgres')
      return
    }
    dataDir = await mkdtemp(join(tmpdir(), 'coffer-full-'))
    await run('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=700', 'coffer-full', dataDir])
    service = await openService({ COFFER_DATA_DIR: dataDir }, dataDir)
    const { ask, expectAll, expectRefused, state, expectSoundTrail } = asker(await furnish(service))
    await expectAll(reads, 200)
    const before = await state()
    const ballast = join(dataDir, 'ballast')
    await writeFile(ballast, Buffer.alloc(8_000_000)).catch((error: unknown) =>
      expect(String(error)).toContain('ENOSPC'),
    )
    const isFull = async () => (await ask(['GET', `${path}/secret`])).status === 503 || undefined
    await until(isFull, 20_000, 'there is no room for an entry')
    await expectRefused([...reads, promotion, ...writes])
    await expectAll(harmless, 200)
    expect(await state()).toEqual(before)

    await unlink(ballast)
    await expectAll(reads, 200)
    expect((await ask(promotion)).status).toBe(200)
    await expectSoundTrail()
  })
})
