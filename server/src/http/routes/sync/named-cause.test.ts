/** The wizard and the runs name the real cause: a missing right, a mount, a key, a limit, and not what a person entered. */
import { describe, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readSync,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
} from '../../../../../test/sync.ts'
import { disabledKey, fakeSecretsManager } from '../../../../../test/vendor/fake/aws-secrets-manager.ts'
import { fakeSsm } from '../../../../../test/vendor/fake/aws-ssm.ts'
import { fakeKubernetes } from '../../../../../test/vendor/fake/kubernetes.ts'
import { fakeVault } from '../../../../../test/vendor/fake/vault-kv.ts'
import { fakeReceiver } from '../../../../../test/vendor/fake/webhook.ts'
import type { Fake } from '../../../../../test/vendor/fake.ts'
import { awsSecretsManager } from '../../../providers/aws-secrets-manager.ts'
import { awsSsm } from '../../../providers/aws-ssm.ts'
import { kubernetes } from '../../../providers/kubernetes.ts'
import type { Provider, Values } from '../../../providers/provider.ts'
import { vaultKv } from '../../../providers/vault-kv.ts'
import { webhook } from '../../../providers/webhook.ts'

async function withWorld(provider: Provider, fake: Fake, work: (world: SyncWorld) => Promise<void>): Promise<void> {
  const world = await startSyncWorld(provider, fake)
  try {
    await work(world)
  } finally {
    await world.stop()
  }
}

/** The answer of the last of these steps; the ones before must succeed. */
async function said(world: SyncWorld, answers: { auth?: Values; target?: Values }): Promise<string> {
  const id = await startSetup(world)
  const auth = await submitStep(world, id, 'auth', { ...world.fake.credential, ...answers.auth })
  if (answers.target === undefined) return `${auth.status} ${auth.body.message ?? auth.body.step}`
  expect(auth.body.step).toBe('target')
  const target = await submitStep(world, id, 'target', { ...world.fake.target, ...answers.target })
  return `${target.status} ${target.body.message ?? target.body.step}`
}

/** `lastError` after a push of these secrets. */
async function errorOf(
  world: SyncWorld,
  secrets: Record<string, string>,
  mapping: Values = {},
): Promise<string | null> {
  await world.project.set('development', secrets)
  const id = await setUpSync(world, mapping)
  await pushDue(world)
  return (await readSync(world, id)).lastError
}

const changeThis = /change it|change this/

describe('a missing right is named, and no field is blamed for it', () => {
  const nothing = { Statement: [] }

  test.each([
    ['Secrets Manager', awsSecretsManager, fakeSecretsManager, /secretsmanager:ListSecrets/],
    ['Parameter Store', awsSsm, fakeSsm, /ssm:DescribeParameters/],
  ] as const)('the right to list at AWS %s', (_title, provider, makeFake, words) => {
    const fake = makeFake()
    return withWorld(provider, fake, async (world) => {
      fake.enforce(nothing)
      const text = await said(world, { target: {} })
      expect(text).toMatch(/^409 AWS .*The credential lacks permissions: grant it those that the auth step lists/)
      expect(text).toMatch(words)
    })
  })

  test.each([[true], [false]])(
    'the right to read Secrets in Kubernetes (namespaces may be listed: %s)',
    (mayListNamespaces) =>
      withWorld(kubernetes, fakeKubernetes({ mayGet: false, mayListNamespaces }), async (world) => {
        expect(await said(world, { target: {} })).toMatch(
          /^409 Kubernetes answered 403: secrets is forbidden.*cannot get resource "secrets"\. The credential lacks/,
        )
      }),
  )

  test('the policy "default" of a valid Vault token', () =>
    withWorld(vaultKv, fakeVault({ hasDefaultPolicy: false }), async (world) => {
      expect(await said(world, {})).toBe(
        '400 token: HashiCorp Vault and OpenBao: The token may not look itself up. Attach the policy "default" to it, or enter another token.',
      )
      expect(await said(world, { auth: { token: 'hvs.wrong' } })).toBe(
        '400 token: HashiCorp Vault and OpenBao answered 403: permission denied; invalid token. The credential is not accepted: enter another one in the auth step.',
      )
    }))
})

describe('Vault', () => {
  test('a KV store of version 1 is named in the wizard', () =>
    withWorld(vaultKv, fakeVault({ kvVersion: '1' }), async (world) => {
      const words =
        '400 mount: HashiCorp Vault and OpenBao: The mount secret is a KV store of version 1. Choose a mount of KV version 2, or upgrade this one.'
      expect(await said(world, { target: {} })).toBe(words)
      expect(await said(world, { target: { path: 'without/rights' } })).toBe(words)
    }))

  test('a path that begins with data/ is named in the wizard', () =>
    withWorld(vaultKv, fakeVault(), async (world) => {
      expect(await said(world, { target: { path: 'data/shop/production' } })).toBe(
        '400 path: begins with a word of the API, which Coffer adds itself: enter shop/production.',
      )
    }))

  test.each(['token', 'approle'])('a namespace on a server without them is named in the wizard (%s)', (method) =>
    withWorld(vaultKv, fakeVault({ method, hasNamespaces: false }), async (world) => {
      expect(await said(world, {})).toBe(
        '400 namespace: HashiCorp Vault and OpenBao: The server has no namespaces, and ignores the one that was entered. Leave this field empty.',
      )
      expect(await said(world, { auth: { namespace: '' } })).toBe('200 target')
    }),
  )
})

describe('a run that fails for another reason than a name or value says so', () => {
  test.each([
    ['Secrets Manager', awsSecretsManager, fakeSecretsManager],
    ['Parameter Store', awsSsm, fakeSsm],
  ] as const)('a disabled KMS key at AWS %s', (_title, provider, makeFake) =>
    withWorld(provider, makeFake(), async (world) => {
      Object.assign(world.fake, { options: { ...world.fake.options, kmsKeyId: disabledKey } })
      const error = await errorOf(world, { ALPHA: 'one' }, { mode: 'per-key' })
      expect(error).toMatch(/^AWS .*disabled|^AWS .*KMS key is available/)
      expect(error).toMatch(/Enable the KMS key at AWS, or choose another one in the mapping step\.$/)
      expect(error).not.toMatch(changeThis)
    }),
  )

  test('an immutable Secret in Kubernetes', () => {
    const fake = fakeKubernetes()
    return withWorld(kubernetes, fake, async (world) => {
      fake.tamper('THEIRS', 'x')
      fake.setImmutable()
      expect(await errorOf(world, { ALPHA: 'one' })).toBe(
        'Kubernetes: The Secret is immutable. Delete it in the cluster, so that the next push creates it anew, or choose another Secret.',
      )
    })
  })

  test('a message that is too large for the receiver of a webhook; smaller ones still arrive', () =>
    withWorld(webhook, fakeReceiver({ maxBytes: 500 }), async (world) => {
      await world.project.set('development', { ALPHA: 'one', LARGE: 'x'.repeat(600), OMEGA: 'last' })
      const id = await setUpSync(world)
      await pushDue(world)
      const { lastError } = await readSync(world, id)
      expect(lastError).toBe(
        'LARGE: Webhook: A message is too large for the receiver (413). Raise the limit of the receiver, or send only the names of the keys, which the mapping step offers.',
      )
      expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: 'one', OMEGA: 'last' })
      expect((await lastRun(world, id)).items.map(({ outcome }) => outcome).sort()).toEqual([
        'created',
        'created',
        'failed',
      ])
    }))
})

test('short values leave the words of a vendor readable', () =>
  withWorld(awsSsm, fakeSsm(), async (world) => {
    world.fake.refusedNames.add('ALPHA')
    const error = await errorOf(world, { ALPHA: 'central', BETA: 'shop', GAMMA: '1' })
    expect(error).toMatch(/^ALPHA: AWS Parameter Store answered 400: \/shop\/production\/ALPHA is refused/)
    expect(error).not.toContain('[hidden]')
  }))
