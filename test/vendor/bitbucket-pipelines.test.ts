import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { bitbucketPipelines } from '../../server/src/providers/bitbucket-pipelines.ts'
import { describeProvider } from './conformance.ts'
import { fakeBitbucket } from './fake/bitbucket-pipelines.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

/** The client's own types do not compile here. */
type Call = (params: object) => Promise<{ data: { uuid: string; values: unknown[] } }>
type Verb = 'create' | 'update' | 'list' | 'delete'
type Client = { repositories: Record<`${Verb}${'Pipeline' | 'Deployment'}Variable${'' | 's'}`, Call> }
const { Bitbucket }: { Bitbucket: new (options: object) => Client } = createRequire(import.meta.url)('bitbucket')

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(bitbucketPipelines, fakeBitbucket, { names })
describe('a deployment environment', () =>
  describeProvider(bitbucketPipelines, () => fakeBitbucket('deployment', { withEmail: true }), { names }))

const start = async (kind?: 'repository' | 'deployment') => {
  const fake = fakeBitbucket(kind)
  const running = await startFake(fake)
  return { fake, running, connection: connectionTo(running) }
}

/** Without the ids of variables, which differ between fakes. */
const wire = ({ method, path, query, json, headers }: FakeRequest) => ({
  method,
  path: decodeURIComponent(path).replace(/variables\/\{[0-9a-f-]{36}\}$/, 'variables/{uuid}'),
  query: Object.fromEntries(query),
  json,
  authorization: headers.authorization,
})

test.each(['repository', 'deployment'] as const)(
  'the bitbucket client works against the fake of a %s and sends the same requests as we do',
  async (kind) => {
    const theirs = await startFake(fakeBitbucket(kind), { plain: true })
    const { token = '' } = theirs.fake.credential
    const { environment = '' } = theirs.fake.target
    const { repositories } = new Bitbucket({ baseUrl: `${theirs.url}/2.0`, auth: { token }, notice: false })
    const what = kind === 'repository' ? 'Pipeline' : 'Deployment'
    const at = { workspace: 'acme', repo_slug: 'shop', ...(environment !== '' && { environment_uuid: environment }) }
    const body = (value: string) => ({ _body: { key: 'ALPHA', value, secured: true } })

    const { data: made } = await repositories[`create${what}Variable`]({ ...at, ...body('one') })
    const variable_uuid = made.uuid
    await repositories[`update${what}Variable`]({ ...at, variable_uuid, ...body('two') })
    expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'two']]))
    const { data } = await repositories[`list${what}Variables`]({ ...at, pagelen: 100 })
    expect(data.values).toEqual([{ type: 'pipeline_variable', uuid: variable_uuid, key: 'ALPHA', secured: true }])
    await repositories[`delete${what}Variable`]({ ...at, variable_uuid })
    expect(theirs.fake.state()).toEqual(new Map())

    const { running: ours, connection } = await start(kind)
    const [mine] = await applyAll(bitbucketPipelines, connection, [create('ALPHA', 'one')])
    const known = { name: 'ALPHA', ...(mine && 'id' in mine && mine.id !== undefined && { id: mine.id }) }
    await applyAll(bitbucketPipelines, connection, [update('ALPHA', 'two', known.id)])
    await listAll(bitbucketPipelines, connection)
    await applyAll(bitbucketPipelines, connection, [remove(known)])
    expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
    expect([...ours.fake.violations, ...theirs.fake.violations]).toEqual([])
    await Promise.all([theirs.close(), ours.close()])
  },
)

test('an unsecured variable is foreign', async () => {
  const { fake, running, connection } = await start()
  fake.variables.push({
    uuid: '{3fa85f64-0000-4562-b3fc-2c963f66afa6}',
    key: 'ALPHA',
    value: 'foreign',
    secured: false,
  })
  const [result] = await applyAll(bitbucketPipelines, connection, [create('ALPHA', 'one')])
  expect(result).toMatchObject({ name: 'ALPHA', fault: { kind: 'conflict' } })
  expect(fake.state()).toEqual(new Map([['ALPHA', 'foreign']]))
  await running.close()
})

test('an update re-creates a missing variable, and searches by name without an id', async () => {
  const { fake, running, connection } = await start()
  const [made] = await applyAll(bitbucketPipelines, connection, [
    update('ALPHA', 'one', '{00000000-0000-4000-8000-000000000000}'),
  ])
  expect(made).toEqual({ name: 'ALPHA', id: fake.variables[0]?.uuid })
  await applyAll(bitbucketPipelines, connection, [update('ALPHA', 'two')])
  expect(fake.state()).toEqual(new Map([['ALPHA', 'two']]))
  await applyAll(bitbucketPipelines, connection, [remove({ name: 'ALPHA' }), remove({ name: 'BETA' })])
  expect(fake.state()).toEqual(new Map())
  await running.close()
})

test('a 404 that may mean forbidden does not count as success', async () => {
  const { fake, running, connection } = await start()
  await applyAll(bitbucketPipelines, connection, [create('ALPHA', 'one')])
  fake.isReadOnly = true
  await expect(applyAll(bitbucketPipelines, connection, [remove({ name: 'ALPHA' })])).rejects.toMatchObject({
    kind: 'scope',
  })
  await expect(applyAll(bitbucketPipelines, connection, [update('ALPHA', 'two')])).rejects.toMatchObject({
    kind: 'gone',
  })
  expect(fake.state()).toEqual(new Map([['ALPHA', 'one']]))
  await running.close()
})

test('a variable re-created by an update with a lost response is ours when the update is repeated', async () => {
  const { fake, running, connection } = await start()
  const remote = bitbucketPipelines.connect(connection)
  const [made] = await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
  fake.tamper('ALPHA', undefined)
  const op = update('ALPHA', 'two', made && 'id' in made ? made.id : undefined)
  running.injectFailure = ({ method }) => (method === 'POST' ? { kind: 'drop', after: true } : undefined)
  await expect(Array.fromAsync(remote.apply([op]))).rejects.toMatchObject({ kind: 'transient' })
  running.injectFailure = undefined
  expect(await Array.fromAsync(remote.apply([op]))).toMatchObject([{ name: 'ALPHA', id: fake.variables[0]?.uuid }])
  expect(fake.state()).toEqual(new Map([['ALPHA', 'two']]))
  await running.close()
})

test('a next page on another host is not followed', async () => {
  const { running, connection } = await start()
  const body = { values: [], next: 'https://elsewhere.example.test/2.0/repositories' }
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  await expect(listAll(bitbucketPipelines, connection)).rejects.toMatchObject({ kind: 'protocol' })
  await running.close()
})

test('line breaks are rejected before anything is sent', () => {
  expect(bitbucketPipelines.limits.refuseValue?.('one\ntwo', {})).toMatch(/^contains a line break/)
  expect(bitbucketPipelines.limits.refuseValue?.('one two', {})).toBeUndefined()
})

test.each([
  ['workspace', '..'],
  ['workspace', 'acme/shop'],
  ['repository', 'shop?x'],
  ['environment', 'Production'],
  ['email', 'a:b@example.com'],
])('%s rejects %j', (id, value) => {
  const fields = [...bitbucketPipelines.auth, ...bitbucketPipelines.target]
  const field = fields.find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})
