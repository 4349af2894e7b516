import Cloudflare from 'cloudflare'
import { expect, test } from 'vitest'
import { cloudflareWorkers } from '../../server/src/providers/cloudflare-workers.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import { describeProvider } from './conformance.ts'
import { accountId, accountToken } from './fake/cloudflare-envelope.ts'
import { fakeCloudflareWorkers, plainBinding } from './fake/cloudflare-workers.ts'
import { type FakeAnswer, type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

describeProvider(cloudflareWorkers, fakeCloudflareWorkers, { names: ['ALPHA', 'BETA', 'GAMMA'] })

const text = (name: string, value: string) => ({ type: 'secret_text' as const, name, text: value })

test('the cloudflare client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeCloudflareWorkers(), { plain: true })
  const client = new Cloudflare({ apiToken: theirs.fake.credential.token ?? '', baseURL: `${theirs.url}/client/v4` })
  const { secrets } = client.workers.scripts
  const first = { ALPHA: text('ALPHA', 'one'), BETA: text('BETA', 'two') }
  expect((await client.user.tokens.verify()).status).toBe('active')
  await secrets.bulkUpdate('shop-production', { account_id: accountId, secrets: first })
  const second = { ALPHA: text('ALPHA', 'three'), BETA: null }
  await secrets.bulkUpdate('shop-production', { account_id: accountId, secrets: second })
  const listed = await Array.fromAsync(secrets.list('shop-production', { account_id: accountId }))
  expect(listed).toEqual([{ name: 'ALPHA', type: 'secret_text' }])
  const names = await Array.fromAsync(client.workers.scripts.list({ account_id: accountId }))
  expect(names.map(({ id }) => id)).toEqual(['shop-production', 'other'])
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'three']]))

  const ours = await startFake(fakeCloudflareWorkers())
  const connection = connectionTo(ours)
  await cloudflareWorkers.verify(connection)
  await applyAll(cloudflareWorkers, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(cloudflareWorkers, connection, [update('ALPHA', 'three'), remove({ name: 'BETA' })])
  await listAll(cloudflareWorkers, connection)
  const [field] = cloudflareWorkers.target
  if (field?.kind === 'select' && typeof field.options === 'function') await field.options(connection)
  const wire = ({ method, url, headers, json }: FakeRequest) => ({
    method,
    url,
    json,
    authorization: headers.authorization,
    type: headers['content-type'],
  })
  const isAccount = ({ path }: FakeRequest) => path === `/client/v4/accounts/${accountId}`
  expect(ours.requests.filter((request) => !isAccount(request)).map(wire)).toEqual(theirs.requests.map(wire))
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

const refusal = (status: number, code: number, message = 'no'): FakeAnswer => ({
  status,
  body: { success: false, errors: [{ code, message }], messages: [], result: null },
})

test.each([
  ['a refusal with status 200', refusal(200, 10021), 'invalid'],
  ['a plan limit', refusal(400, 10055), 'quota'],
  ['a newer, undeployed version', refusal(400, 10215), 'conflict'],
  ['an expired token', refusal(403, 9109, 'Invalid access token'), 'auth'],
  ['a token without the permission', refusal(403, 9109, 'Unauthorized to access requested resource'), 'scope'],
  ['a malformed token', refusal(400, 6003, 'Invalid request headers'), 'auth'],
  ['a 200 without a success flag', { status: 200, body: { result: {} } }, 'protocol'],
  ['an HTML page with status 200', { status: 200, body: '<html>' }, 'protocol'],
])('%s is classified', async (_title, answer, kind) => {
  const running = await startFake(fakeCloudflareWorkers())
  running.injectFailure = () => ({ kind: 'answer', answer })
  const error = await applyAll(cloudflareWorkers, connectionTo(running), [create('ALPHA', 'x')]).catch(
    (e: unknown) => e,
  )
  expect(isFault(error) && error.kind).toBe(kind)
  await running.close()
})

test('a name used by another binding is a conflict, and nothing of the call is stored', async () => {
  const running = await startFake(fakeCloudflareWorkers())
  const ops = [create('ALPHA', 'x'), create(plainBinding, 'y')]
  const error = await applyAll(cloudflareWorkers, connectionTo(running), ops).catch((e: unknown) => e)
  expect(isFault(error, 'conflict') && error.facts.vendorMessage).toContain(plainBinding)
  expect(running.fake.state().size).toBe(0)
  await running.close()
})

test('101 operations, including deletes, take two calls', async () => {
  const running = await startFake(fakeCloudflareWorkers())
  running.fake.tamper('OLD', 'x')
  const ops = Array.from({ length: 100 }, (_, index) => create(`KEY_${index}`, 'x'))
  await applyAll(cloudflareWorkers, connectionTo(running), [remove({ name: 'OLD' }), ...ops])
  expect(running.requests.map(({ method }) => method)).toEqual(['PATCH', 'PATCH'])
  expect(running.fake.state().size).toBe(100)
  expect(running.fake.violations).toEqual([])
  await running.close()
})

test('an account token is verified at its account, and needs no permission to read the account’s name', async () => {
  const running = await startFake(fakeCloudflareWorkers())
  const connection = connectionTo(running, { credential: { token: accountToken, accountId } })
  expect(await cloudflareWorkers.verify(connection)).toBe('Example')
  const isAccount = ({ path }: FakeRequest) => path === `/client/v4/accounts/${accountId}`
  running.injectFailure = (request) =>
    isAccount(request) ? { kind: 'answer', answer: refusal(403, 10000) } : undefined
  expect(await cloudflareWorkers.verify(connection)).toBe(`account ${accountId}`)
  await running.close()
})

test('a token that may not list Workers makes the wizard ask for the name', async () => {
  const running = await startFake(fakeCloudflareWorkers())
  running.injectFailure = () => ({ kind: 'answer', answer: refusal(403, 10000, 'Authentication error') })
  const [field] = cloudflareWorkers.target
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  expect(await field.options(connectionTo(running))).toBeUndefined()
  for (const name of ['a/b', '../x', 'a b', '']) expect(field.check?.(name, {})).toBeDefined()
  await running.close()
})

test('a Worker without secrets lists none, in every form of the vendor’s response', async () => {
  const running = await startFake(fakeCloudflareWorkers())
  for (const result of [null, []]) {
    const body = { success: true, errors: [], messages: [], result }
    running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
    expect(await listAll(cloudflareWorkers, connectionTo(running))).toEqual([])
  }
  await running.close()
})
