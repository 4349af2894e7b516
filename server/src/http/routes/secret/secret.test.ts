import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Environment } from '@coffer/contract/environment'
import type { TeamGroup } from '@coffer/contract/project'
import type { Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

type Place = {
  id: string
  slug: string
  path: string
  secret: string
  dev: string
  staging: string
  production: string
}
let places = 0

/** A project of its own for each test. */
async function newPlace(): Promise<Place> {
  const slug = `place-${++places}`
  const { id, environments } = await createProject(service, owner.session, slug)
  const [dev = '', staging = '', production = ''] = environments.map((environment) => environment.id)
  const path = `/v1/workspace/main/project/${slug}`
  return { id, slug, path, secret: `${path}/secret`, dev, staging, production }
}

type Sent = { token?: string; body?: unknown; headers?: Record<string, string> }
const send = <Body = { message: string }>(
  method: string,
  path: string,
  { token = owner.session, ...more }: Sent = {},
) => service.call<Body>(method, path, { token, ...more })

async function create(place: Place, values: Record<string, string>, environments = [place.dev]): Promise<void> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  const body = { environments, secrets, mode: 'upsert' }
  const answer = await send<WriteResults>('POST', place.secret, { body })
  expect(answer.status, answer.text).toBe(201)
}

async function list(place: Place, query = '', token = owner.session): Promise<Secret[]> {
  const answer = await send<Secret[]>('GET', `${place.secret}${query}`, { token })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const namesOf = (secrets: readonly Secret[]) => secrets.map(({ name }) => name)
const ref = (name: string) => `\${${name}}`

test('the list is sorted by name, and holds the requested environments in the requested order', async () => {
  const place = await newPlace()
  await create(place, { b: '1', B: '1', a: '1', _: '1', '-': '1', A9: '1', A10: '1' }, [place.dev, place.staging])
  await create(place, { ONLY: '1' }, [place.production])
  const both = ['-', 'A10', 'A9', 'B', '_', 'a', 'b']
  const all = ['-', 'A10', 'A9', 'B', 'ONLY', '_', 'a', 'b']
  const rowsOf = async (query: string, names = both) => {
    const secrets = await list(place, query)
    expect(namesOf(secrets)).toEqual(names)
    return secrets.find(({ name }) => name === 'B')?.values.map(({ environmentId }) => environmentId)
  }
  const { dev, staging } = place
  expect(await rowsOf('', all)).toEqual([dev, staging])
  expect(await rowsOf(`?environmentId=${dev}`)).toEqual([dev])
  expect(await rowsOf('?environment_id=Staging')).toEqual([staging])
  expect(await rowsOf(`?environmentId=${dev}&environmentId=staging`)).toEqual([dev, staging])
  expect(await rowsOf(`?environmentId=${dev}&environment_id=staging&environmentId=development`)).toEqual([dev, staging])
  expect(await rowsOf('?environmentId=production', ['ONLY'])).toBeUndefined()
})

test('an unknown environment, one of another project and one outside the scope are all not found', async () => {
  const place = await newPlace()
  const other = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  const asked: [query: string, token: string][] = [
    ['environmentId=nowhere', owner.session],
    [`environmentId=${other.dev}`, owner.session],
    [`environmentId=${place.dev}&environment_id=nowhere`, owner.session],
    [`environmentId=${place.staging}`, token],
    ['environmentId=staging', token],
  ]
  for (const [query, credential] of asked) {
    for (const path of [place.secret, `${place.secret}/A`]) {
      const answer = await send('GET', `${path}?${query}`, { token: credential })
      expect(answer, query).toMatchObject({ status: 404, body: { message: 'Not found.' } })
    }
  }
  expect((await list(place, '', token))[0]?.values).toMatchObject([{ environmentId: place.dev }])
})

test('a search returns the names that contain the text', async () => {
  const place = await newPlace()
  await create(place, { DB_URL: '1', DB_PASSWORD: '1', API_KEY: '1' })
  expect(namesOf(await list(place, '?q=DB_'))).toEqual(['DB_PASSWORD', 'DB_URL'])
  expect(namesOf(await list(place, '?q=_'))).toHaveLength(3)
  expect(namesOf(await list(place, '?q=%25'))).toEqual([])
  expect(namesOf(await list(place, '?q='))).toHaveLength(3)
  // A list without a search must not share its cached response with a search for this word.
  expect(namesOf(await list(place, '?q=undefined'))).toEqual([])
  expect(namesOf(await list(place, ''))).toHaveLength(3)
})

test('a secret is read by name and by id, and is not found without a row in the scope of the caller', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const [secret] = await list(place)
  expect((await send('GET', `${place.secret}/A`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/${secret?.id}/`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/${secret?.id.toUpperCase()}`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/a`)).status).toBe(404)
  expect((await send('GET', `${place.secret}/A?environmentId=staging`)).status).toBe(404)
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  for (const key of ['A', secret?.id]) expect((await send('GET', `${place.secret}/${key}`, { token })).status).toBe(404)
  const other = await newPlace()
  expect((await send('GET', `${other.secret}/${secret?.id}`)).status).toBe(404)
})

test('the keys view holds everything except values', async () => {
  const place = await newPlace()
  await create(place, { A: 'hidden-value', B: ref('A') })
  const full = await list(place)
  const keys = await send<Secret[]>('GET', `${place.secret}?view=keys`)
  expect(keys.text).not.toContain('hidden-value')
  expect(keys.body).toEqual(
    full.map((secret) => ({ ...secret, values: secret.values.map(({ value: _, ...row }) => row) })),
  )
  const resolved = await send<Secret[]>('GET', `${place.secret}?view=keys&resolve=true`)
  expect(resolved.text).not.toContain('hidden-value')
  expect(resolved.body).toEqual(
    keys.body.map((secret) => ({ ...secret, values: secret.values.map(({ version: _, ...row }) => row) })),
  )
  expect((await send<Secret>('GET', `${place.secret}/A?view=keys`)).body).toEqual(keys.body[0])
})

test('counts include only secrets in the scope of the caller', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging])
  await create(place, { C: '1' }, [place.production])
  const counts = async (environments: string[]) => {
    const { token } = await createToken(service, owner.session, { scope: { environments } })
    const { body: groups } = await send<TeamGroup[]>('GET', '/v1/workspace/main/project', { token })
    const { body } = await send<Environment[]>('GET', `${place.path}/environment`, { token })
    return [groups[0]?.projects[0]?.secrets, ...body.map(({ totalSecrets }) => totalSecrets)]
  }
  expect(await counts([place.dev])).toEqual([2, 2])
  expect(await counts([place.dev, place.staging])).toEqual([2, 2, 2])
  expect(await counts([place.staging, place.production])).toEqual([3, 2, 1])
})

test('a credential for one environment reads its resolved secrets without any parameter', async () => {
  const place = await newPlace()
  await create(place, { A: ref('B'), B: '1' })
  await create(place, { A: 'other' }, [place.staging])
  const cli = await send<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    body: { environmentId: place.dev },
  })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  for (const credential of [cli.body.token, token, await exchange(service, token)]) {
    const answer = await send<Secret[]>('GET', '/v1/secrets', { token: credential })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual(await list(place, '?resolve=true', credential))
    expect(answer.body.map(({ values }) => values.map(({ value }) => value))).toEqual([['1'], ['1']])
    const headers = { 'if-none-match': answer.headers.get('etag') ?? '' }
    expect((await send('GET', '/v1/secrets', { token: credential, headers })).status).toBe(304)
  }
})

test('a credential for more than one environment gets an error that names the path to call', async () => {
  const place = await newPlace()
  const scopes = [
    { all: true },
    { projects: [place.id] },
    { environments: [place.dev, place.staging] },
    { environments: [place.dev], projects: [place.id] },
  ]
  const tokens = scopes.map(async (scope) => (await createToken(service, owner.session, { scope })).token)
  for (const token of [owner.session, ...(await Promise.all(tokens))]) {
    const { status, body } = await send('GET', '/v1/secrets', { token })
    expect(status).toBe(400)
    expect(body.message).toContain('/v1/workspace/{ws}/project/{prj}/secret')
  }
})

const auditOf = async (query: string) =>
  (await send<AuditEntry[]>('GET', `/v1/workspace/main/audit?limit=200&${query}`)).body
const verify = async () => (await send<AuditVerdict>('GET', '/v1/workspace/main/audit/verify')).body

test('every read of values leaves one audit entry with its keys, and a read without values leaves none', async () => {
  const place = await newPlace()
  await create(place, { A: 'v-a', B: 'v-b' }, [place.dev, place.staging])
  await create(place, { C: 'v-c' }, [place.staging])
  const views = () => auditOf(`project=${place.id}&action=VIEW`)
  expect(await views()).toEqual([])
  const etag = (await send('GET', place.secret)).headers.get('etag') ?? ''
  await send('GET', `${place.secret}?view=keys`)
  await send('GET', `${place.secret}/A?view=keys`)
  await send('GET', place.secret, { headers: { 'if-none-match': etag } })
  await send('GET', `${place.secret}?environmentId=production`)
  await send('GET', `${place.secret}/NONE`)
  await send('GET', `${place.secret}?environmentId=nowhere`)
  expect(await views()).toHaveLength(1)
  const request = await send('GET', `${place.secret}?environmentId=development`, { headers: { 'user-agent': 'u/1' } })
  await send('GET', `${place.secret}?environmentId=development`)
  expect(await views()).toMatchObject([
    { after: { keys: ['A', 'B'] } },
    {
      actor: { type: 'user', id: owner.id, name: owner.email },
      entity: { type: 'secrets', id: place.id, name: place.slug },
      projectId: place.id,
      environmentId: place.dev,
      userAgent: 'u/1',
      requestId: request.headers.get('x-request-id'),
      after: { keys: ['A', 'B'], environments: ['development'] },
    },
    { environmentId: null, after: { keys: ['A', 'B', 'C'], environments: ['development', 'staging', 'production'] } },
  ])
  expect(await auditOf(`project=${place.slug}&environment=${place.dev}&action=view`)).toHaveLength(3)
  const verdict = await verify()
  const [newest] = await auditOf('')
  expect(verdict).toEqual({ ok: true, entries: newest?.sequence, head: newest?.hash })
})

test('the audit entry of a single read has the id and name of the secret, whichever the request used', async () => {
  const place = await newPlace()
  await create(place, { SINGLE: '1' })
  const [secret] = await list(place, '?view=keys')
  for (const key of ['SINGLE', secret?.id]) {
    await send('GET', `${place.secret}/${key}`)
    const [entry] = await auditOf(`project=${place.id}&action=VIEW`)
    expect(entry).toMatchObject({
      entity: { type: 'secret', id: secret?.id, name: 'SINGLE' },
      after: { keys: ['SINGLE'] },
    })
  }
  expect(await auditOf(`project=${place.id}&action=VIEW&entity=SINGLE`)).toHaveLength(2)
})

test('concurrent reads leave one audit entry each, in a chain that verifies', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const paths = Array.from({ length: 40 }, (_, index) => (index % 2 ? place.secret : `${place.secret}/A`))
  const answers = await Promise.all([
    ...paths.map((path) => send('GET', path)),
    create(place, { B: '1' }).then(() => undefined),
  ])
  const asked = answers.flatMap((answer) => answer?.headers.get('x-request-id') ?? [])
  const entries = await auditOf(`project=${place.id}&action=VIEW`)
  expect(entries.map(({ requestId }) => requestId).sort()).toEqual(asked.sort())
  expect((await verify()).ok).toBe(true)
})

test('the audit trail records every write without values, and a write without effect as a comparison', async () => {
  const place = await newPlace()
  const value = (name: string) => `canary-${place.slug}-${name}`
  const environmentId = place.dev
  await create(place, { A: value('a'), B: value('b') })
  await send('PUT', `${place.secret}/A/value`, { body: { environmentId, value: value('a2') } })
  const row = { environmentId, value: value('a3') }
  await send('PUT', `${place.secret}/A`, { body: { name: 'A2', note: 'n', values: [row] } })
  const operations = [
    { op: 'set', key: 'C', value: value('c') },
    { op: 'delete', key: 'B' },
  ]
  await send('POST', `${place.secret}/batch`, { body: { environmentId, operations, message: 'why' } })
  await send('DELETE', `${place.secret}/C`)
  await send('POST', `${place.secret}/C/restore`)
  await send('DELETE', `${place.secret}/C?purge=true`)
  const reminder = { environmentId, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  await send('PUT', `${place.secret}/A2/reminder`, { body: reminder })
  const before = await auditOf(`project=${place.id}`)
  const dry = { environments: [place.dev], secrets: [{ key: 'DRY', value: 'd' }], dryRun: true }
  await send('POST', place.secret, { body: dry })
  await send('POST', place.secret, { body: { ...dry, dryRun: false, secrets: [{ key: 'A2', value: 'd' }] } })
  await send('PUT', `${place.secret}/A2/value`, { body: { environmentId, value: value('a3') } })
  const entries = await auditOf(`project=${place.id}`)
  expect(entries.slice(3)).toEqual(before)
  expect(entries.slice(0, 3).map(({ action }) => action)).toEqual(['COMPARE', 'COMPARE', 'COMPARE'])
  expect(JSON.stringify(entries)).not.toContain('canary')
  const requests = new Set(entries.map(({ requestId }) => requestId))
  // The project itself, the eight changes above, and the three requests that changed nothing.
  expect(requests.size).toBe(12)
  const created = await auditOf(`project=${place.id}&action=CREATE&environment=${place.dev}`)
  expect(created.at(-1)?.after).toMatchObject({
    changes: [
      { key: 'A', environment: 'development', status: 'created', version: 1 },
      { key: 'B', environment: 'development', status: 'created', version: 1 },
    ],
  })
  expect((await verify()).ok).toBe(true)
})

test('a read of one secret ignores q', async () => {
  const place = await newPlace()
  await create(place, { KEY: 'value' })
  for (const query of ['q=zzz', 'q=a&q=b', 'q=']) {
    const answer = await send<Secret>('GET', `${place.secret}/KEY?environmentId=${place.dev}&${query}`)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.name).toBe('KEY')
  }
})
