/** Only the workspaces that the operator lists may use the private addresses that the operator allows. */
import type { IdentityVerdict } from '@coffer/contract/oidc'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createDatabase,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { createIdentity, loopbackAllowed, startIssuer, type TestIssuer, tryFederation } from '../../../test/issuer.ts'
import { pushDue, readSync, setUpSync, startSetup, startSyncWorld, submitStep } from '../../../test/sync.ts'
import { fakeVault } from '../../../test/vendor/fake/vault-kv.ts'
import { runDoctor } from '../operator/doctor/doctor.ts'
import { vaultKv } from '../providers/vault-kv.ts'

const advice =
  'Private addresses, other ports and plain http are for workspaces that the operator lists in COFFER_OUTBOUND_WORKSPACES: ask the operator to add this one.'

async function addWorkspace(service: TestService, { session }: TestUser, slug: string): Promise<string> {
  const body = { name: slug, slug }
  const answer = await service.call<{ id: string }>('POST', '/v1/workspace', { token: session, body })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.id
}

describe('an issuer', () => {
  let service: TestService
  let owner: TestUser
  let issuer: TestIssuer

  beforeAll(async () => {
    service = await startService({ ...loopbackAllowed, COFFER_OUTBOUND_WORKSPACES: 'main' })
    owner = await registerOwner(service)
    await addWorkspace(service, owner, 'other')
    issuer = await startIssuer()
  })
  afterAll(async () => {
    await issuer.stop()
    await service.stop()
  })

  const identity = (workspace: string, url: string) =>
    createIdentity(service, owner.session, { issuer: url, subject: 'somebody' }, workspace)

  /** The sentence that an admin sees about the signature. */
  async function problem(workspace: string, id: string, token: string): Promise<string> {
    const path = `/v1/workspace/${workspace}/oidc/${id}/test`
    const { body } = await service.call<IdentityVerdict>('POST', path, { token: owner.session, body: { token } })
    return body.checks.find(({ check }) => check === 'signature')?.actual ?? ''
  }

  test('on an allowed private address works for a listed workspace', async () => {
    await identity('main', issuer.url)
    expect((await tryFederation(service, await issuer.sign())).status).toBe(200)
  })

  test('by plain http is refused to any other workspace, with advice', async () => {
    const body = { name: 'ci', issuer: issuer.url, audience: 'coffer', subject: 's', permission: 'read' }
    const answer = await service.call('POST', '/v1/workspace/other/oidc', {
      token: owner.session,
      body: { ...body, scope: { all: true } },
    })
    expect(answer).toMatchObject({ status: 400, body: { message: `issuer: must start with https://. ${advice}` } })
  })

  test('is refused with the same message whether or not the operator allows its address', async () => {
    const told = await Promise.all(
      ['127.0.0.1', '10.0.0.1', '[::1]'].map(async (host) => {
        const url = `https://${host}`
        const { id } = await identity('other', url)
        const said = await problem('other', id, await issuer.sign({ iss: url }))
        return said.replace(host.replace(/[[\]]/g, ''), 'HOST')
      }),
    )
    const words = `no keys: Connecting to HOST is refused: it has a private or reserved address. ${advice}`
    expect(told).toEqual([words, words, words])
  })

  test('is not used for a workspace that is no longer listed, even if its keys are cached for others', async () => {
    const rename = async (from: string, slug: string) => {
      const answer = await service.call('PUT', `/v1/workspace/${from}`, { token: owner.session, body: { slug } })
      expect(answer.status, answer.text).toBe(200)
    }
    const token = await issuer.sign()
    // Slugs can be reused: the workspace with the slug main is now the listed one.
    await rename('main', 'first')
    await rename('other', 'main')
    expect((await tryFederation(service, token, 'first')).status).toBe(401)
    await identity('main', issuer.url)
    expect((await tryFederation(service, token)).status).toBe(200)
    await rename('main', 'other')
    await rename('first', 'main')
    expect((await tryFederation(service, token)).status).toBe(200)
  })
})

test('with open sign-up, only workspaces listed by id or slug may use the allow list', async () => {
  const database = await createDatabase({ hasSchema: true })
  const settings = { ...database.settings, ...loopbackAllowed, COFFER_SIGNUP: 'open' }
  const issuer = await startIssuer()
  const first = await openService(settings, database.dataDir)
  const owner = await registerOwner(first)
  const id = await addWorkspace(first, owner, 'listed')
  const body = { name: 'ci', issuer: issuer.url, audience: 'coffer', subject: 's', permission: 'read' }
  const refused = await first.call('POST', '/v1/workspace/main/oidc', {
    token: owner.session,
    body: { ...body, scope: { all: true } },
  })
  expect(refused).toMatchObject({ status: 400, body: { message: expect.stringContaining(advice) } })
  await first.stop()
  const second = await openService({ ...settings, COFFER_OUTBOUND_WORKSPACES: id }, database.dataDir)
  await createIdentity(second, owner.session, { issuer: issuer.url, subject: 'somebody' }, 'listed')
  expect((await tryFederation(second, await issuer.sign(), 'listed')).status).toBe(200)
  await second.stop()
  await issuer.stop()
  await database.drop()
})

describe('a sync', () => {
  test('cannot be set up by an unlisted workspace', async () => {
    const world = await startSyncWorld(vaultKv, fakeVault(), { COFFER_OUTBOUND_WORKSPACES: 'elsewhere' })
    const id = await startSetup(world)
    const answer = await submitStep(world, id, 'auth', world.fake.credential)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toContain(advice)
    expect(world.running.requests).toEqual([])
    await world.stop()
  })

  test('stops pushing when its workspace is no longer listed, and says so', async () => {
    const world = await startSyncWorld(vaultKv, fakeVault(), { COFFER_OUTBOUND_WORKSPACES: 'main' })
    const rename = (from: string, slug: string) =>
      world.service.call('PUT', `/v1/workspace/${from}`, { token: world.owner.session, body: { slug } })
    await world.project.set('development', { ALPHA: 'one' })
    const id = await setUpSync(world)
    await pushDue(world)
    await world.project.set('development', { ALPHA: 'two' })
    expect((await rename('main', 'other')).status).toBe(200)
    world.running.forget()
    await pushDue(world, 15_000)
    expect((await rename('other', 'main')).status).toBe(200)
    expect(world.running.requests).toEqual([])
    expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: expect.stringContaining(advice) })
    await world.stop()
  })
})

test('the doctor names a listed workspace that does not exist', async () => {
  const service = await startService()
  await registerOwner(service)
  const output: string[] = []
  const doctor = (listed: string) =>
    runDoctor({ ...service.settings, COFFER_OUTBOUND_WORKSPACES: listed }, (text) => output.push(text))
  expect(await doctor('main')).toBe(0)
  expect(await doctor('main,nobody')).toBe(1)
  expect(output.join('')).toContain('wrong  workspaces with private addresses: COFFER_OUTBOUND_WORKSPACES lists nobody')
  await service.stop()
})
