import Cloudflare from 'cloudflare'
import { expect, test } from 'vitest'
import { cloudflarePages } from '../../server/src/providers/cloudflare-pages.ts'
import { describeProvider } from './conformance.ts'
import { accountId } from './fake/cloudflare-envelope.ts'
import { fakeCloudflarePages } from './fake/cloudflare-pages.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { connectionTo, create, remove, update } from './operation.ts'

describeProvider(cloudflarePages, fakeCloudflarePages, { names: ['ALPHA', 'BETA', 'GAMMA'] })

const text = (value: string) => ({ type: 'secret_text' as const, value })
const wire = ({ method, url, headers, json }: FakeRequest) => ({
  method,
  url,
  json,
  authorization: headers.authorization,
  type: headers['content-type'],
})

test('the cloudflare client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeCloudflarePages(), { plain: true })
  const client = new Cloudflare({ apiToken: theirs.fake.credential.token ?? '', baseURL: `${theirs.url}/client/v4` })
  const { projects } = client.pages
  const edit = (env_vars: Record<string, { type: 'secret_text'; value: string } | null>) =>
    projects.edit('shop', {
      account_id: accountId,
      deployment_configs: { production: { env_vars, wrangler_config_hash: 'aaaa' } },
    })
  const before = await projects.get('shop', { account_id: accountId })
  expect(before.deployment_configs.production.wrangler_config_hash).toBe('aaaa')
  await edit({ ALPHA: text('one'), BETA: text('two') })
  const after = await edit({ ALPHA: text('three'), BETA: null })
  // Secret values are write-only.
  expect(after.deployment_configs.production.env_vars).toEqual({ ALPHA: text('') })
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'three']]))
  const listed = await Array.fromAsync(projects.list({ account_id: accountId, per_page: 10 }))
  expect(listed.at(-1)?.name).toBe('shop')

  const ours = await startFake(fakeCloudflarePages())
  const remote = cloudflarePages.connect(connectionTo(ours))
  await Array.fromAsync(remote.list(new Set()))
  await Array.fromAsync(remote.apply([create('ALPHA', 'one'), create('BETA', 'two')]))
  await Array.fromAsync(remote.apply([update('ALPHA', 'three'), remove({ name: 'BETA' })]))
  expect(ours.requests.map(wire)).toEqual(theirs.requests.slice(0, 3).map(wire))
  const [field] = cloudflarePages.target
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  expect((await field.options(connectionTo(ours)))?.length).toBe(listed.length)
  for (const bad of ['Shop', 'a/b', '..', '-a', '']) expect(field.check?.(bad, {})).toBeDefined()
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('a push keeps the other environment and the hash of the Wrangler configuration', async () => {
  const fake = fakeCloudflarePages()
  const running = await startFake(fake)
  fake.configs.preview.env_vars.set('ALPHA', { type: 'plain_text', value: 'of the preview' })
  const remote = cloudflarePages.connect(connectionTo(running))
  await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
  expect(fake.configs.preview.env_vars.get('ALPHA')?.value).toBe('of the preview')
  expect(fake.configs.production.wrangler_config_hash).toBe('aaaa')
  expect(fake.configs.production.env_vars.get('ALPHA')?.type).toBe('secret_text')

  const preview = connectionTo(running, { target: { project: 'shop', environment: 'preview' } })
  await Array.fromAsync(cloudflarePages.connect(preview).apply([remove({ name: 'ALPHA' })]))
  expect(fake.configs.preview.env_vars.size).toBe(0)
  expect(fake.state()).toEqual(new Map([['ALPHA', 'one']]))
  expect(fake.violations).toEqual([])
  await running.close()
})

test('a project without variables lists none', async () => {
  const running = await startFake(fakeCloudflarePages())
  const result = { name: 'shop', deployment_configs: { production: { env_vars: null } } }
  const body = { success: true, errors: [], messages: [], result }
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  expect(await Array.fromAsync(cloudflarePages.connect(connectionTo(running)).list(new Set()))).toEqual([])
  await running.close()
})
