/**
 * An error names the field of a wrong value, or the vendor if the vendor failed, and quotes the vendor without secrets.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  flowPath,
  readStep,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
} from '../../../../../test/sync.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { fakeVault } from '../../../../../test/vendor/fake/vault-kv.ts'
import type { FakeAnswer } from '../../../../../test/vendor/fake.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'
import { vaultKv } from '../../../providers/vault-kv.ts'

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(vaultKv, fakeVault())
  await world.project.set('development', { ALPHA: 'one' })
})
afterAll(() => world.stop())
afterEach(() => {
  world.running.injectFailure = undefined
})

const respondWith = (answer: FakeAnswer) => {
  world.running.injectFailure = () => ({ kind: 'answer', answer })
}
const errors = (status: number, text: string): FakeAnswer => ({ status, body: { errors: [text] } })

async function signedIn(): Promise<string> {
  const id = await startSetup(world)
  expect((await submitStep(world, id, 'auth', world.fake.credential)).body.step).toBe('target')
  return id
}

describe('the error names the field of', () => {
  test.each([
    ['an address whose host does not resolve', 'https://elsewhere.example.test', /could not be resolved \(ENOTFOUND\)/],
    ['an address in a blocked network', 'https://10.0.0.1', /Connecting to 10\.0\.0\.1 is refused/],
  ])('%s', async (_title, address, words) => {
    const id = await startSetup(world)
    const { status, body } = await submitStep(world, id, 'auth', { ...world.fake.credential, address })
    expect([status, body.message]).toEqual([400, expect.stringMatching(words)])
    expect(body.message).toMatch(/^address: /)
  })

  test('an option that was not offered, alone or together with dependent fields', async () => {
    const id = await signedIn()
    const alone = await submitStep(world, id, 'target', { mount: 'nomount' })
    expect([alone.status, alone.body.message]).toEqual([
      400,
      'mount: is not one of those that HashiCorp Vault and OpenBao offers.',
    ])
    const both = await submitStep(world, id, 'target', { mount: 'nomount', path: 'shop/production' })
    expect([both.status, both.body.message]).toEqual([
      400,
      expect.stringMatching(/^mount: .* answered 404: no handler/),
    ])
    const other = await submitStep(world, id, 'target', { mount: 'secret', path: 'somebody/elses' })
    expect([other.status, other.body.message]).toEqual([
      400,
      expect.stringMatching(/^path: .* answered 403: permission/),
    ])
    expect((await submitStep(world, id, 'target', world.fake.target)).body.step).toBe('mapping')
  })

  test('a credential that no header can carry', async () => {
    const id = await startSetup(world)
    const { status, body } = await submitStep(world, id, 'auth', { ...world.fake.credential, token: 'ünusual ✓' })
    expect([status, body.message]).toEqual([400, expect.stringMatching(/^token: .*A header of the request/)])
  })

  test('a value of the wrong type or length', async () => {
    const syncConfigId = await startSetup(world)
    const ask = (values: unknown) =>
      world.service.call<{ message: string }>('POST', '/v1/sync/vault-kv/flow', {
        token: world.owner.session,
        body: { syncConfigId, step: 'auth', values },
      })
    expect((await ask({ address: 5 })).body.message).toBe('address: must be a string.')
    expect((await ask({ address: 'x'.repeat(40_000) })).body.message).toBe(
      'address: must have 32768 characters or fewer.',
    )
    expect((await ask(5)).body.message).toBe('values: must be an object.')
  })
})

describe('a failure of the vendor', () => {
  const unavailable = (retryAfter: string, words: string | RegExp) => [503, retryAfter, expect.stringMatching(words)]

  test('is 503 with Retry-After during the setup, and names no field', async () => {
    const id = await signedIn()
    const get = async () => {
      const { status, headers, body } = await world.service.call<{ message: string }>(
        'GET',
        flowPath('vault-kv', id, 'target'),
        { token: world.owner.session },
      )
      return [status, headers.get('retry-after'), body.message]
    }
    const post = async (step: string, values: Record<string, string>) => {
      const { status, headers, body } = await submitStep(world, id, step, values)
      return [status, headers.get('retry-after'), body.message]
    }
    respondWith({ ...errors(429, 'rate limit quota exceeded'), headers: { 'retry-after': '42' } })
    const limited = unavailable(
      '42',
      /^HashiCorp Vault and OpenBao answered 429: rate limit quota exceeded\. Try again/,
    )
    expect(await post('auth', world.fake.credential)).toEqual(limited)
    expect(await post('target', { mount: 'secret' })).toEqual(limited)
    expect(await post('target', world.fake.target)).toEqual(limited)
    expect(await get()).toEqual(limited)
    respondWith(errors(503, 'Vault is sealed'))
    const sealed = unavailable('5', /^HashiCorp Vault and OpenBao answered 503: Vault is sealed\. Try again/)
    expect(await post('auth', world.fake.credential)).toEqual(sealed)
    expect(await get()).toEqual(sealed)
    respondWith({ status: 200, body: 'a page of something else' })
    expect(await post('auth', world.fake.credential)).toEqual(unavailable('5', /^HashiCorp Vault and OpenBao: /))
    world.running.injectFailure = () => ({ kind: 'drop', after: false })
    expect(await post('auth', world.fake.credential)).toEqual(unavailable('5', /^HashiCorp Vault and OpenBao: vault\./))
  })

  test('is 503 for a plan too; a refused credential is 409', async () => {
    const id = await setUpSync(world)
    respondWith(errors(500, 'internal error'))
    const { status, headers, body } = await world.project.ask<{ message: string }>('POST', `/sync/${id}/plan`)
    expect([status, headers.get('retry-after'), body.message]).toEqual(
      unavailable('5', /^HashiCorp Vault and OpenBao answered 500: internal error\./),
    )
    respondWith(errors(403, 'permission denied'))
    expect((await world.project.ask('POST', `/sync/${id}/plan`)).status).toBe(409)
  })
})

test('the message of a vendor is quoted with the credential hidden', async () => {
  const id = await startSetup(world)
  const { token = '' } = world.fake.credential
  respondWith(errors(403, `permission denied: invalid token ${token} for namespace team-a by method token`))
  const { status, body, text } = await submitStep(world, id, 'auth', world.fake.credential)
  expect(status).toBe(400)
  expect(body.message).toContain('permission denied: invalid token [hidden] for namespace team-a by method token.')
  expect(text).not.toContain(token)
})

test('a form with dependent fields names itself as the next step until all fields are shown', async () => {
  const id = await signedIn()
  const shown = async () => {
    const { fields, next } = await readStep(world, id, 'target')
    return [fields.map((field) => field.id), next.step]
  }
  expect(await shown()).toEqual([['mount'], 'target'])
  expect((await submitStep(world, id, 'target', { mount: 'secret' })).body.step).toBe('target')
  expect(await shown()).toEqual([['mount', 'path'], 'mapping'])
})

test('a form with dependent fields stores and checks every value, also of fields after the missing one', async () => {
  const gitlab = await startSyncWorld(gitlabCi, fakeGitLab({ kind: 'group' }))
  const id = await startSetup(gitlab)
  await submitStep(gitlab, id, 'auth', gitlab.fake.credential)
  const bad = await submitStep(gitlab, id, 'target', { kind: 'group', environmentScope: 'not;a;scope' })
  expect([bad.status, bad.body.message]).toEqual([400, 'environmentScope: is not an environment scope.'])
  const first = await submitStep(gitlab, id, 'target', { kind: 'group', environmentScope: 'production' })
  expect(first.body.step).toBe('target')
  const { fields } = await readStep(gitlab, id, 'target')
  expect(fields.map((field) => [field.id, 'defaultValue' in field.data && field.data.defaultValue])).toEqual([
    ['kind', 'group'],
    ['group', false],
    ['environmentScope', 'production'],
  ])
  await gitlab.stop()
})
