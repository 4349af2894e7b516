import { createRequire } from 'node:module'
import type Client from 'circle-client'
import { describe, expect, test } from 'vitest'
import { circleci } from '../../server/src/providers/circleci.ts'
import { describeProvider } from './conformance.ts'
import { fakeCircle } from './fake/circleci.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

/** The default export differs between import and require. */
const { default: Circle }: typeof Client = createRequire(import.meta.url)('circle-client')

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(circleci, fakeCircle, { names })
describe('a context', () => describeProvider(circleci, () => fakeCircle('context'), { names }))
describe('a self-hosted server', () =>
  describeProvider(circleci, () => fakeCircle('project', { baseUrl: 'https://circleci.example.test' }), { names }))

const wire = ({ method, path, query, json, headers }: FakeRequest) => ({
  method,
  path: decodeURIComponent(path),
  query: Object.fromEntries(query),
  json,
  token: headers['circle-token'],
})

test.each(['project', 'context'] as const)(
  'circle-client works against the fake of a %s and sends the same requests as we do',
  async (kind) => {
    const theirs = await startFake(fakeCircle(kind), { plain: true })
    const { token = '' } = theirs.fake.credential
    const client = new Circle(token, 'gh/acme/shop')
    Reflect.set(Circle, 'baseUrl', `${theirs.url}/api/v2`)
    const id = theirs.fake.target.kind === 'context' ? theirs.fake.target.context : undefined
    const put = (name: string, value: string) =>
      id === undefined ? client.createEnvVar(name, value) : client.createContextEnvVar(id, name, value)
    await put('ALPHA', 'one-long-value')
    await put('ALPHA', 'two-long-value')
    const { items } = id === undefined ? await client.listEnvVars() : await client.listContextEnvVars(id)
    expect(items).toMatchObject([id === undefined ? { name: 'ALPHA', value: 'xxxxalue' } : { variable: 'ALPHA' }])
    expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'two-long-value']]))
    await (id === undefined ? client.deleteEnvVar('ALPHA') : client.deleteContextEnvVar(id, 'ALPHA'))

    const ours = await startFake(fakeCircle(kind))
    const connection = connectionTo(ours)
    await applyAll(circleci, connection, [create('ALPHA', 'one-long-value'), update('ALPHA', 'two-long-value')])
    await listAll(circleci, connection)
    await applyAll(circleci, connection, [remove({ name: 'ALPHA' })])
    expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
    expect([...ours.fake.violations, ...theirs.fake.violations]).toEqual([])
    await Promise.all([theirs.close(), ours.close()])
  },
)

test('a context returns the modification time of each variable, starting with the write', async () => {
  const running = await startFake(fakeCircle('context'))
  const connection = connectionTo(running)
  const [made] = await applyAll(circleci, connection, [create('ALPHA', 'one')])
  expect(await listAll(circleci, connection)).toEqual([made])
  running.fake.tamper('ALPHA', 'two')
  expect(await listAll(circleci, connection)).not.toEqual([made])
  await running.close()
})

test('nothing of a project’s values is stored, not even the suffix that CircleCI shows', async () => {
  const running = await startFake(fakeCircle())
  const connection = connectionTo(running)
  expect(await applyAll(circleci, connection, [create('ALPHA', 'canary-1234')])).toEqual([{ name: 'ALPHA' }])
  expect(await listAll(circleci, connection)).toEqual([{ name: 'ALPHA' }])
  await running.close()
})

test('a missing variable counts as deleted only if the list is readable', async () => {
  for (const kind of ['project', 'context'] as const) {
    const running = await startFake(fakeCircle(kind))
    const connection = connectionTo(running)
    expect(await applyAll(circleci, connection, [remove({ name: 'ALPHA' })])).toEqual([{ name: 'ALPHA' }])
    running.fake.setTarget(false)
    await expect(applyAll(circleci, connection, [remove({ name: 'ALPHA' })])).rejects.toMatchObject({ kind: 'gone' })
    await running.close()
  }
})

test.each([
  ['project', 'gh/acme'],
  ['project', 'gh/acme/..'],
  ['project', 'svn/acme/shop'],
  ['project', 'gh/acme/shop/envvar'],
  ['organization', 'acme'],
  ['context', '../me'],
  ['baseUrl', 'https://circleci.com/api/v2'],
])('%s rejects %j', (id, value) => {
  const field = [...circleci.auth, ...circleci.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^(is not|must be) /)
})
