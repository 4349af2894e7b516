/** Error texts, hints and names in the wizard. */
import type { FlowField, SyncPlan } from '@coffer/contract/sync'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addUser } from '../../../../../test/harness.ts'
import {
  lastRun,
  pushDue,
  readStep,
  readSync,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
  walk,
} from '../../../../../test/sync.ts'
import { unrelatedCertificate } from '../../../../../test/vendor/certificate.ts'
import { fakeSecretsManager } from '../../../../../test/vendor/fake/aws-secrets-manager.ts'
import { fakeKeyVault } from '../../../../../test/vendor/fake/azure-key-vault.ts'
import { fakeGcp } from '../../../../../test/vendor/fake/gcp-secret-manager.ts'
import { fakeKubernetes } from '../../../../../test/vendor/fake/kubernetes.ts'
import { fakeVault } from '../../../../../test/vendor/fake/vault-kv.ts'
import { fakeReceiver } from '../../../../../test/vendor/fake/webhook.ts'
import type { Fake } from '../../../../../test/vendor/fake.ts'
import { awsSecretsManager } from '../../../providers/aws-secrets-manager.ts'
import { azureKeyVault } from '../../../providers/azure-key-vault.ts'
import { gcpSecretManager } from '../../../providers/gcp-secret-manager.ts'
import { kubernetes } from '../../../providers/kubernetes.ts'
import type { Provider, Values } from '../../../providers/provider.ts'
import { vaultKv } from '../../../providers/vault-kv.ts'
import { webhook } from '../../../providers/webhook.ts'

async function withWorld(
  provider: Provider,
  fake: Fake,
  work: (world: SyncWorld) => Promise<void>,
  plain = false,
): Promise<void> {
  const world = await startSyncWorld(provider, fake, {}, plain)
  try {
    await work(world)
  } finally {
    await world.stop()
  }
}

async function signIn(world: SyncWorld, changed: Values): Promise<string> {
  const id = await startSetup(world)
  const { status, body } = await submitStep(world, id, 'auth', { ...world.fake.credential, ...changed })
  return `${status} ${body.message ?? body.step}`
}

describe('Kubernetes', () => {
  let world: SyncWorld & { stop(): Promise<void> }
  beforeAll(async () => {
    world = await startSyncWorld(kubernetes, fakeKubernetes())
    await world.project.set('development', { ALPHA: 'one' })
  })
  afterAll(() => world.stop())

  test('an unverifiable certificate is reported for the field ca, with a hint what to enter', async () => {
    const said = await signIn(world, { ca: Buffer.from(unrelatedCertificate).toString('base64') })
    expect(said).toMatch(
      /^400 ca: Kubernetes: cluster\.example\.test shows a certificate that cannot be verified \([A-Z_]+\)\. Enter its CA certificate/,
    )
  })

  test('a server address may end in a slash', async () => {
    const { fake } = world
    Object.assign(fake, { credential: { ...fake.credential, server: `${fake.credential.server}/` } })
    await setUpSync(world)
    await pushDue(world)
    expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'one' })
    expect(world.running.requests.every(({ path }) => !path.includes('//'))).toBe(true)
  })

  test('the printed commands find the certificate wherever kubectl stores it', async () => {
    const { fields } = await readStep(world, await startSetup(world), 'auth')
    const commands = fields.find(({ id }) => id === 'commands')
    const text = commands?.type === 'copy' ? commands.data.value : ''
    const views = text.split('\n').filter((line) => line.startsWith('kubectl config view'))
    expect(views).toHaveLength(2)
    for (const view of views) expect(view).toContain('--raw --minify --flatten')
  })
})

describe('Vault', () => {
  test('an address may end in a slash', async () => {
    const fake = fakeVault()
    await withWorld(vaultKv, fake, async (world) => {
      await world.project.set('development', { ALPHA: 'one' })
      Object.assign(fake, { credential: { ...fake.credential, address: `${fake.credential.address}/` } })
      await setUpSync(world)
      await pushDue(world)
      expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'one' })
    })
  })

  test('a wrong part of an AppRole is reported for its own field, if Vault says which', async () => {
    await withWorld(vaultKv, fakeVault({ method: 'approle', tellsWhich: true }), async (world) => {
      expect(await signIn(world, { roleId: 'fake-role-id-0002' })).toMatch(/^400 roleId: /)
      expect(await signIn(world, { secretId: 'fake-secret-id-0002' })).toMatch(/^400 secretId: /)
    })
  })
})

describe('a refusal by the login service of a vendor', () => {
  test.each([
    ['STS', awsSecretsManager, () => fakeSecretsManager(), /^400 accessKeyId: AWS STS answered 403: /],
    ['Entra', azureKeyVault, () => fakeKeyVault(), /^400 clientSecret: Microsoft Entra ID: /],
    ['Google OAuth', gcpSecretManager, () => fakeGcp(), /^400 serviceAccount: Google OAuth answered 400: /],
  ])('names that service: %s', async (_title, provider, makeFake, words) => {
    await withWorld(provider, makeFake(), async (world) => {
      expect(await signIn(world, world.fake.wrongCredential)).toMatch(words)
    })
  })

  test('names AWS STS for a role that the keys cannot assume', async () => {
    await withWorld(awsSecretsManager, fakeSecretsManager(), async (world) => {
      const said = await signIn(world, { method: 'role', roleArn: 'arn:aws:iam::111122223333:role/other' })
      expect(said).toMatch(/^400 roleArn: AWS STS/)
      expect(said).not.toContain('Secrets Manager')
    })
  })
})

describe('a webhook over plain http', () => {
  const url = 'http://hooks.example.test/coffer'

  test('is set up and pushed to if the operator lists its host', async () => {
    const fake = fakeReceiver()
    const open = async (world: SyncWorld) => {
      await world.project.set('development', { ALPHA: 'one' })
      Object.assign(fake, { credential: { ...fake.credential, url } })
      const id = await setUpSync(world)
      await pushDue(world)
      expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
      expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'one' })
    }
    await withWorld(webhook, fake, open, true)
  })

  test('is refused for any other host, with the field url', async () => {
    await withWorld(webhook, fakeReceiver(), async (world) => {
      expect(await signIn(world, { url: 'http://192.0.2.1/coffer' })).toMatch(/^400 url: Webhook: Connecting to/)
      expect(await signIn(world, { url: 'ftp://hooks.example.test/' })).toMatch(/^400 url: must be an address/)
    })
  })
})

describe('the environment of a sync', () => {
  let world: SyncWorld & { stop(): Promise<void> }
  beforeAll(async () => {
    world = await startSyncWorld(vaultKv, fakeVault())
    await world.project.set('staging', { ALPHA: 'of staging' })
  })
  afterAll(() => world.stop())

  const environmentIn = (fields: readonly FlowField[]) => fields.find(({ id }) => id === 'environment')

  test('is accepted by name and by id', async () => {
    const id = await startSetup(world)
    await walk(world, id, 'auth', { environment: 'staging' })
    await pushDue(world)
    expect(await readSync(world, id)).toMatchObject({ environmentId: world.project.idOf('staging') })
    expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: 'of staging' })
    const { fields } = await readStep(world, id, 'mapping')
    expect(environmentIn(fields)?.data).toMatchObject({
      defaultValue: world.project.idOf('staging'),
      options: expect.arrayContaining([{ label: 'staging', value: world.project.idOf('staging') }]),
    })
    const wrong = await submitStep(world, id, 'mapping', { environment: 'nowhere' })
    expect(wrong.body.message).toMatch(/^environment: is not one of (\w+, )+\w+\.$/)
    expect(wrong.body.message).toContain('staging')
  })
})

describe('a plan and its runs', () => {
  let world: SyncWorld & { stop(): Promise<void> }
  beforeAll(async () => {
    world = await startSyncWorld(vaultKv, fakeVault())
    await world.project.set('development', { ALPHA: 'one', BETA: 'two' })
    await world.project.set('staging', { ALPHA: 'of staging' })
  })
  afterAll(() => world.stop())

  test('name the sync that owns an entry only to people who can see that sync', async () => {
    const { service, owner, project } = world
    await setUpSync(world, { include: 'ALPHA' }, 'development', 'First')
    await pushDue(world)
    const beside = await setUpSync(world, { include: 'ALPHA' }, 'development', 'Beside')
    const other = await setUpSync(world, { include: 'ALPHA' }, 'staging', 'Other')
    await pushDue(world)
    const named = 'is already written by the sync "First".'
    const unnamed = 'is already written by another sync.'
    const messagesOf = async (id: string) => (await lastRun(world, id)).items.map(({ message }) => message)
    expect([await messagesOf(beside), await messagesOf(other)]).toEqual([[named], [unnamed]])

    const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', {
      token: owner.session,
    })
    const scope = { all: false, teams: [], projects: [], environments: [project.idOf('staging')] }
    const narrow = await addUser(service, 'narrow@example.com', { workspaceId: workspace.id, role: 'admin', scope })
    const reasons = async (token: string) =>
      (await project.must<SyncPlan>('POST', `/sync/${other}/plan`, {}, token)).reasons
    expect(await reasons(owner.session)).toEqual([{ name: 'ALPHA', reason: named }])
    expect(await reasons(narrow.session)).toEqual([{ name: 'ALPHA', reason: unnamed }])
    await project.must('DELETE', `/sync/${beside}`)
    await project.must('DELETE', `/sync/${other}`)
  })

  test('say "first" for the first push only, and "settings" for a confirmed change', async () => {
    const labelOf = async (id: string) =>
      (await readStep(world, id, 'review')).fields.find((field) => field.id === 'plan')?.label
    const id = await startSetup(world, 'Changed')
    await submitStep(world, id, 'auth', world.fake.credential)
    await submitStep(world, id, 'target', world.fake.target)
    await submitStep(world, id, 'mapping', { environment: 'development', include: 'BETA' })
    expect(await labelOf(id)).toBe('What the first push does')
    await walk(world, id, 'review', {})
    await pushDue(world)
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'first', counts: { created: 1 } })
    await submitStep(world, id, 'mapping', { environment: 'development', include: 'BETA', prefix: 'X_' })
    expect(await labelOf(id)).toBe('What the next push does')
    await walk(world, id, 'review', {})
    await pushDue(world)
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'settings', counts: { created: 1, deleted: 1 } })
  })
})
