import { createRailway } from '@crisog/railway-sdk'
import { parse, print, visit } from 'graphql'
import { expect, test } from 'vitest'
import { isFault } from '../../server/src/providers/fault.ts'
import { railway } from '../../server/src/providers/railway.ts'
import { describeProvider } from './conformance.ts'
import { accountToken, fakeRailway } from './fake/railway.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

describeProvider(railway, fakeRailway, { names: ['ALPHA', 'BETA', 'GAMMA'] })

const { project: projectId = '', environment: environmentId = '', service: serviceId = '' } = fakeRailway().target
const place = { projectId, environmentId, serviceId }

const reference = `\${{Postgres.DATABASE_URL}}`

/** Removes the operation names, which differ between clients. */
function wire({ method, path, headers, json }: FakeRequest) {
  const { query, variables } = json as { query: string; variables: unknown }
  const nameless = visit(parse(query), { OperationDefinition: (node) => ({ ...node, name: undefined }) })
  return { method, path, token: headers['project-access-token'], document: print(nameless), variables }
}

test('an SDK generated from the vendor’s schema works against the fake and sends the same writes as we do', async () => {
  const theirs = await startFake(fakeRailway(), { plain: true })
  const token = theirs.fake.credential.token ?? ''
  const sdk = createRailway({ token, tokenType: 'project', endpoint: `${theirs.url}/graphql/v2` })
  const upsert = async (variables: Record<string, string>) => {
    const input = { ...place, variables, replace: false, skipDeploys: false }
    return (await sdk.variables.collectionUpsert({ variables: { input } })).isOk()
  }
  expect(await upsert({ ALPHA: 'one', BETA: 'two' })).toBe(true)
  expect(await upsert({ ALPHA: 'three' })).toBe(true)
  expect((await sdk.variables.delete({ variables: { input: { ...place, name: 'BETA' } } })).isOk()).toBe(true)
  const listed = await sdk.variables.list({ variables: { ...place, unrendered: true } })
  expect(listed.isOk() && listed.value).toMatchObject({ variables: { ALPHA: 'three' } })
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'three']]))

  const ours = await startFake(fakeRailway())
  const connection = connectionTo(ours)
  await applyAll(railway, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(railway, connection, [update('ALPHA', 'three')])
  await applyAll(railway, connection, [remove({ name: 'BETA' })])
  expect(ours.requests.map(wire)).toEqual(theirs.requests.slice(0, 3).map(wire))
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('the names of sealed variables stay in use, and a push does not change them', async () => {
  const fake = fakeRailway()
  const running = await startFake(fake)
  fake.tamper('SEALED', 'x')
  fake.seal('SEALED')
  fake.tamper('FOREIGN', reference)
  const items = await listAll(railway, connectionTo(running))
  expect(items).toEqual([{ name: 'FOREIGN', value: reference }, { name: 'SEALED' }])
  await applyAll(railway, connectionTo(running), [create('ALPHA', 'one')])
  expect(fake.state().get('SEALED')).toBe('x')
  expect(JSON.stringify(running.requests.map(({ json }) => json))).not.toContain('"replace":true')
  await running.close()
})

test.each([
  ['a proxy’s page', '<html>Back soon</html>'],
  ['no data', { data: null }],
])('%s with status 200 is not a successful push', async (_what, body) => {
  const running = await startFake(fakeRailway())
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  for (const op of [create('ALPHA', 'one'), remove({ name: 'BETA' })]) {
    await expect(applyAll(railway, connectionTo(running), [op])).rejects.toMatchObject({ kind: 'protocol' })
  }
  await running.close()
})

test('reference syntax in values and the vendor’s reserved names are rejected before anything is sent', () => {
  const refuse = railway.limits.refuseValue
  expect(refuse?.(`postgres://${reference}`, {})).toContain('${{')
  for (const value of [`\${PLAIN}`, '$', '{{x}}', '$ {{x}}']) expect(refuse?.(value, {})).toBeUndefined()
  for (const name of ['RAILWAY_TOKEN', '1A', 'A-B', '']) expect(railway.limits.name.test(name)).toBe(false)
})

test('without a service, shared variables are written and those of services stay unchanged', async () => {
  const fake = fakeRailway()
  const running = await startFake(fake)
  fake.tamper('ALPHA', 'of the service')
  const shared = connectionTo(running, { target: { project: projectId, environment: environmentId } })
  await applyAll(railway, shared, [create('ALPHA', 'shared')])
  expect(fake.state().get('ALPHA')).toBe('of the service')
  expect(await listAll(railway, shared)).toEqual([{ name: 'ALPHA', value: 'shared' }])
  await applyAll(railway, shared, [remove({ name: 'ALPHA' })])
  expect(fake.state().get('ALPHA')).toBe('of the service')
  const labels = [connectionTo(running).target, shared.target].map((target) => railway.describeTarget(target, {}))
  expect(labels[0]?.fingerprint).not.toBe(labels[1]?.fingerprint)
  await running.close()
})

test('a push triggers a deployment unless that is turned off', async () => {
  const fake = fakeRailway()
  const running = await startFake(fake)
  await applyAll(railway, connectionTo(running, { options: { deploy: 'no' } }), [create('ALPHA', 'one')])
  expect(fake.deploys()).toBe(0)
  await applyAll(railway, connectionTo(running), [update('ALPHA', 'two')])
  expect(fake.deploys()).toBe(1)
  await running.close()
})

test('an account token uses another header and lists the projects of every workspace, page by page', async () => {
  const fake = fakeRailway()
  fake.pageSize = 1
  const running = await startFake(fake)
  const account = { credential: { tokenType: 'account', token: accountToken } }
  expect(await railway.verify(connectionTo(running, account))).toBe('Example')
  expect(running.requests[0]?.headers).toMatchObject({ authorization: `Bearer ${accountToken}` })
  expect(running.requests[0]?.headers['project-access-token']).toBeUndefined()
  const offered = await Promise.all(
    railway.target.map(async (field) => {
      if (field.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
      return (await field.options(connectionTo(running, account)))?.map(({ value }) => value)
    }),
  )
  expect(offered[0]?.length).toBe(2)
  expect(offered.map((values) => values?.at(-1))).toEqual([projectId, environmentId, serviceId])
  const wrong = connectionTo(running, { credential: { tokenType: 'account', token: 'wrong' } })
  const error = await railway.verify(wrong).catch((caught: unknown) => caught)
  expect(isFault(error, 'auth')).toBe(true)
  expect(fake.violations).toEqual([])
  await running.close()
})

test.each([
  ['Not Authorized', 'auth'],
  ['Service not found', 'gone'],
  ['Rate limit exceeded', 'rate'],
  ['Problem processing request', 'transient'],
  ['Something new', 'invalid'],
])('the vendor’s message "%s" is classified', async (message, kind) => {
  const running = await startFake(fakeRailway())
  const body = { data: null, errors: [{ message, extensions: { code: 'INTERNAL_SERVER_ERROR' } }] }
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  for (const op of [create('ALPHA', 'x'), remove({ name: 'ALPHA' })]) {
    const error = await applyAll(railway, connectionTo(running), [op]).catch((caught: unknown) => caught)
    expect(isFault(error) && error.kind).toBe(kind)
  }
  await running.close()
})
