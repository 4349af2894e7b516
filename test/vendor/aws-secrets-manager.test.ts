import {
  CreateSecretCommand,
  DeleteSecretCommand,
  DescribeSecretCommand,
  ListSecretsCommand,
  PutSecretValueCommand,
  RestoreSecretCommand,
  SecretsManagerClient,
} from '@aws-sdk/client-secrets-manager'
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts'
import { expect, test } from 'vitest'
import { explainFault } from '../../server/src/domain/sync/fault.ts'
import { createScrubber } from '../../server/src/domain/sync/scrubber.ts'
import { awsSecretsManager as provider } from '../../server/src/providers/aws-secrets-manager.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import type { OpResult } from '../../server/src/providers/provider.ts'
import { policyOf } from './aws-policy.ts'
import { describeProvider } from './conformance.ts'
import { awsAccount, awsKeys, awsRole } from './fake/aws.ts'
import { type FakeSecretsManager, fakeSecretsManager } from './fake/aws-secrets-manager.ts'
import { type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const syncId = '0199a000-0000-7000-8000-000000000001'
const ours = [
  { Key: 'managed-by', Value: 'coffer' },
  { Key: 'coffer-sync', Value: syncId },
]

const names = ['shop/ALPHA', 'shop/BETA', 'shop/GAMMA'] as const
describeProvider(provider, fakeSecretsManager, { names })
describeProvider(provider, () => fakeSecretsManager({ format: 'other' }), { names })

const wire = ({ method, path, headers, text, json }: FakeRequest) => ({
  method,
  path,
  target: headers['x-amz-target'],
  type: headers['content-type'],
  // STS requests are form-encoded; the order of the fields does not matter.
  input: json ?? Object.fromEntries([...new URLSearchParams(text)].sort()),
})
const kindsOf = (results: OpResult[]) =>
  results.map((result) => ('fault' in result ? Reflect.get(result.fault, 'kind') : 'done'))

test('the official client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeSecretsManager({ clock: Date.now }), { plain: true })
  const client = new SecretsManagerClient({ region: 'eu-central-1', endpoint: theirs.url, credentials: awsKeys })
  const mine = await startFake(fakeSecretsManager({ clock: Date.now }))
  const connection = connectionTo(mine)
  const first = create('shop/ALPHA', 'one')
  const second = update('shop/ALPHA', 'two')
  const again = create('shop/ALPHA', 'three')
  if (first.kind === 'delete' || second.kind === 'delete' || again.kind === 'delete')
    throw new Error('unexpected delete')
  const put = (op: typeof first) =>
    new PutSecretValueCommand({ SecretId: op.name, SecretString: op.value, ClientRequestToken: op.operationId })
  const make = (op: typeof first) =>
    new CreateSecretCommand({
      Name: op.name,
      SecretString: op.value,
      ClientRequestToken: op.operationId,
      Tags: ours,
    })

  const made = await client.send(make(first))
  expect(made).toMatchObject({ Name: 'shop/ALPHA', VersionId: first.operationId })
  await client.send(put(second))
  const page = await client.send(
    new ListSecretsCommand({ MaxResults: 100, Filters: [{ Key: 'name', Values: ['shop/ALPHA', 'shop/BETA'] }] }),
  )
  expect(page.SecretList).toMatchObject([
    { Name: 'shop/ALPHA', Tags: ours, SecretVersionsToStages: { [second.operationId]: ['AWSCURRENT'] } },
  ])
  await client.send(new DeleteSecretCommand({ SecretId: 'shop/ALPHA', RecoveryWindowInDays: 7 }))
  await expect(client.send(make(again))).rejects.toThrow(/scheduled for deletion/)
  const described = await client.send(new DescribeSecretCommand({ SecretId: 'shop/ALPHA' }))
  expect(described.DeletedDate).toBeInstanceOf(Date)
  await client.send(new RestoreSecretCommand({ SecretId: 'shop/ALPHA' }))
  await client.send(put(again))
  await expect(client.send(new DescribeSecretCommand({ SecretId: 'nobody' }))).rejects.toThrow(/can't find/)

  await applyAll(provider, connection, [first])
  await applyAll(provider, connection, [second])
  await listAll(provider, connection, ['shop/ALPHA', 'shop/BETA'])
  await applyAll(provider, connection, [remove({ name: 'shop/ALPHA' })])
  expect(kindsOf(await applyAll(provider, connection, [again]))).toEqual(['done'])
  await listAll(provider, connection, ['nobody'])

  expect(mine.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect([...mine.fake.violations, ...theirs.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), mine.close()])
})

test('the official client reads an error code in the header and a null as we do', async () => {
  const running = await startFake(fakeSecretsManager({ format: 'other' }), { plain: true })
  const client = new SecretsManagerClient({ region: 'eu-central-1', endpoint: running.url, credentials: awsKeys })
  await client.send(new CreateSecretCommand({ Name: 'A', SecretString: 'one' }))
  const described = await client.send(new DescribeSecretCommand({ SecretId: 'A' }))
  expect([described.DeletedDate ?? undefined, described.Tags ?? undefined]).toEqual([undefined, undefined])
  const missing = client.send(new DescribeSecretCommand({ SecretId: 'B' }))
  await expect(missing).rejects.toMatchObject({
    name: 'ResourceNotFoundException',
    $metadata: { httpStatusCode: 404 },
  })
  await running.close()
})

test('a role is assumed with the sync id as the external id, like the official client does, once per run', async () => {
  const parts = { externalId: syncId, clock: Date.now }
  const theirs = await startFake(fakeSecretsManager(parts), { plain: true })
  const sts = new STSClient({ region: 'eu-central-1', endpoint: theirs.url, credentials: awsKeys })
  const role = { RoleArn: awsRole, RoleSessionName: `coffer-${syncId}`, ExternalId: syncId }
  const { Credentials } = await sts.send(new AssumeRoleCommand(role))
  const {
    AccessKeyId: accessKeyId = '',
    SecretAccessKey: secretAccessKey = '',
    SessionToken: sessionToken = '',
  } = Credentials ?? {}
  const credentials = { accessKeyId, secretAccessKey, sessionToken }
  const client = new SecretsManagerClient({ region: 'eu-central-1', endpoint: theirs.url, credentials })
  await client.send(new ListSecretsCommand({ MaxResults: 100, Filters: [{ Key: 'name', Values: ['A', 'B'] }] }))
  await client.send(new ListSecretsCommand({ MaxResults: 100, Filters: [{ Key: 'name', Values: ['A', 'B'] }] }))

  const mine = await startFake(fakeSecretsManager(parts))
  const credential = { method: 'role', roleArn: awsRole, ...awsKeys }
  const remote = provider.connect(connectionTo(mine, { credential }))
  await Array.fromAsync(remote.list(new Set(['A', 'B'])))
  await Array.fromAsync(remote.list(new Set(['A', 'B'])))
  expect(mine.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect(mine.requests.map(({ host }) => host)).toEqual([
    'sts.eu-central-1.amazonaws.com',
    'secretsmanager.eu-central-1.amazonaws.com',
    'secretsmanager.eu-central-1.amazonaws.com',
  ])
  expect(mine.requests[1]?.headers['x-amz-security-token']).toBe(sessionToken)

  expect(await provider.verify(connectionTo(mine, { credential }))).toContain(`${awsAccount}:assumed-role/coffer`)
  const identity = await sts.send(new GetCallerIdentityCommand({}))
  expect(identity).toMatchObject({ Account: awsAccount })
  expect([...mine.fake.violations, ...theirs.fake.violations]).toEqual([])

  const stranger = connectionTo(mine, { credential, syncId: '0199a000-0000-7000-8000-00000000ffff' })
  await expect(provider.verify(stranger)).rejects.toMatchObject({ kind: 'scope', facts: { field: 'roleArn' } })
  await Promise.all([theirs.close(), mine.close()])
})

const withFakes = async (scene: (fake: FakeSecretsManager, running: RunningFake) => Promise<void>) => {
  const fake = fakeSecretsManager()
  const running = await startFake(fake)
  await scene(fake, running)
  await running.close()
  expect(fake.violations).toEqual([])
}

test('foreign secrets are neither overwritten nor restored from their recovery window', () =>
  withFakes(async (fake, running) => {
    fake.tamper('THEIRS', 'theirs')
    fake.plantDeleted('DELETED')
    const ops = [create('THEIRS', 'x'), create('DELETED', 'x'), update('DELETED', 'x')]
    expect(kindsOf(await applyAll(provider, connectionTo(running), ops))).toEqual(['conflict', 'conflict', 'conflict'])
    expect(fake.state()).toEqual(new Map([['THEIRS', 'theirs']]))
    const ofAnotherSync = connectionTo(running, { syncId: '0199a000-0000-7000-8000-00000000ffff' })
    await applyAll(provider, ofAnotherSync, [create('OTHER', 'other')])
    await applyAll(provider, ofAnotherSync, [remove({ name: 'OTHER' })])
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('OTHER', 'x')]))).toEqual(['conflict'])
    expect(fake.secret('OTHER')?.deletedAt).toBeDefined()
  }))

test.each([
  ['is refused', false, 'scope'],
  ['is done', true, 'done'],
])('under the policy printed by the wizard, a takeover %s when takeover is %s', (_title, takesOver, outcome) =>
  withFakes(async (fake, running) => {
    fake.tamper('THEIRS', 'theirs')
    fake.enforce(policyOf(provider, fake, syncId, { takesOver, mapping: { mode: 'per-key' } }))
    await applyAll(provider, connectionTo(running), [create('OURS', 'one')])
    await applyAll(provider, connectionTo(running), [update('OURS', 'two')])
    const work = applyAll(provider, connectionTo(running), [update('THEIRS', 'x')]).then(kindsOf, (error) => [
      error.kind,
    ])
    expect(await work).toEqual([outcome])
    await expect(applyAll(provider, connectionTo(running), [remove({ name: 'THEIRS' })])).rejects.toMatchObject({
      kind: 'scope',
    })
    await applyAll(provider, connectionTo(running), [remove({ name: 'OURS' })])
    expect([...fake.state().keys()]).toEqual(['THEIRS'])
  }),
)

test.each([
  [{ mode: 'json', objectName: 'shop' }, ['shop'], ['shop2', 'other']],
  [{ mode: 'per-key', prefix: 'shop/', rename: 'A=RENAMED' }, ['shop/A', 'RENAMED'], ['A', 'RENAMED2', 'other/shop/A']],
])('the policy for %o allows only the names of the sync', (mapping, allowed, refused) =>
  withFakes(async (fake, running) => {
    fake.enforce(policyOf(provider, fake, syncId, { mapping }))
    const remote = () => provider.connect(connectionTo(running))
    for (const name of allowed) {
      expect(await Array.fromAsync(remote().list(new Set([name])))).toEqual([])
      const results = await applyAll(provider, connectionTo(running), [create(name, 'one')])
      expect(
        kindsOf([...results, ...(await applyAll(provider, connectionTo(running), [update(name, 'two')]))]),
      ).toEqual(['done', 'done'])
      expect(await Array.fromAsync(remote().list(new Set([name])))).toMatchObject([{ name, isOurs: true }])
    }
    for (const name of refused) {
      await expect(applyAll(provider, connectionTo(running), [create(name, 'x')])).rejects.toMatchObject({
        kind: 'scope',
      })
    }
  }),
)

test('a name conflict is explained in our words, not in those of AWS', () =>
  withFakes(async (fake, running) => {
    fake.plantDeleted('DELETED')
    const [result] = await applyAll(provider, connectionTo(running), [create('DELETED', 'x')])
    const fault = result && 'fault' in result && isFault(result.fault) ? result.fault : undefined
    const sentence = 'A secret with this name is scheduled for deletion and does not belong to this sync.'
    expect(fault && explainFault(provider.name, fault, createScrubber())).toContain(`AWS Secrets Manager: ${sentence}`)
  }))

test('our own secrets are restored from their recovery window, by a create and by an update', () =>
  withFakes(async (fake, running) => {
    for (const again of [create('A', 'two'), update('A', 'three')]) {
      await applyAll(provider, connectionTo(running), [create('A', 'one')])
      await applyAll(provider, connectionTo(running), [remove({ name: 'A' })])
      expect(await listAll(provider, connectionTo(running), ['A'])).toEqual([])
      expect(await listAll(provider, connectionTo(running), ['A', 'B'])).toEqual([])
      const [result] = await applyAll(provider, connectionTo(running), [again])
      const [item] = await listAll(provider, connectionTo(running), ['A'])
      expect(item).toEqual({ isOurs: true, ...result })
    }
    expect(fake.state()).toEqual(new Map([['A', 'three']]))
  }))

test('an update of a missing secret creates it with our tags', () =>
  withFakes(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [update('A', 'one')])
    expect(fake.secret('A')?.tags).toEqual(ours)
  }))

test('repeating an update after a lost response adds no second version', () =>
  withFakes(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    const op = update('A', 'two')
    running.injectFailure = () => ({ kind: 'drop', after: true })
    await expect(applyAll(provider, connectionTo(running), [op])).rejects.toMatchObject({ kind: 'transient' })
    running.injectFailure = undefined
    await applyAll(provider, connectionTo(running), [op])
    expect(fake.secret('A')?.versions.map(({ value }) => value)).toEqual(['one', 'two'])
  }))

test('many names are listed by their common prefix, or without a filter if they have none', () =>
  withFakes(async (fake, running) => {
    fake.tamper('shop/A0', 'x')
    fake.tamper('other', 'x')
    const names = Array.from({ length: 12 }, (_, index) => `shop/A${index}`)
    expect(await listAll(provider, connectionTo(running), names)).toMatchObject([{ name: 'shop/A0' }])
    expect(running.requests[0]?.json).toMatchObject({ Filters: [{ Key: 'name', Values: ['shop/A'] }] })
    expect(await listAll(provider, connectionTo(running), [...names, 'other'])).toHaveLength(2)
    expect(running.requests[1]?.json).toEqual({ MaxResults: 100 })
  }))

test('a new secret gets the chosen KMS key, and the recovery window defaults to 30 days', () =>
  withFakes(async (fake, running) => {
    const connection = connectionTo(running, { options: { kmsKeyId: 'alias/coffer' } })
    await applyAll(provider, connection, [create('A', 'one')])
    expect(fake.secret('A')?.kmsKeyId).toBe('alias/coffer')
    await applyAll(provider, connection, [remove({ name: 'A' })])
    expect(running.requests.at(-1)?.json).toEqual({ SecretId: 'A', RecoveryWindowInDays: 30 })
  }))

test.each([
  ['ThrottlingException', 400, 'rate'],
  ['AccessDeniedException', 400, 'scope'],
  ['ExpiredTokenException', 400, 'auth'],
  ['com.amazonaws.secretsmanager#LimitExceededException', 400, 'quota'],
  ['InternalServiceError', 500, 'transient'],
  ['InvalidParameterException', 400, 'invalid'],
  ['ThrottlingException', 404, 'rate'],
  ['AccessDeniedException', 404, 'scope'],
  ['ExpiredTokenException', 409, 'auth'],
  ['LimitExceededException', 402, 'quota'],
  ['ThrottlingException', 503, 'rate'],
])('%s with status %i is classified by its code', (type, status, kind) =>
  withFakes(async (_fake, running) => {
    const answer = { status, body: { __type: type, message: 'canary-value is wrong' } }
    running.injectFailure = () => ({ kind: 'answer', answer })
    const fault = await applyAll(provider, connectionTo(running), [create('A', 'canary-value')]).then(
      ([result]) => result && 'fault' in result && result.fault,
      (error: unknown) => error,
    )
    expect(fault).toMatchObject({ kind, facts: { vendorMessage: 'canary-value is wrong' } })
    expect(String(fault)).not.toContain('canary')
  }),
)

test('a wrong secret key is an auth fault, a wrong clock is a transient one', async () => {
  const fake = fakeSecretsManager({ clock: Date.now })
  const running = await startFake(fake)
  const credential = { ...fake.credential, secretAccessKey: 'wrong' }
  await expect(listAll(provider, connectionTo(running, { credential }))).rejects.toMatchObject({ kind: 'auth' })
  const now = () => Date.now() - 3_600_000
  await expect(listAll(provider, connectionTo(running, { now }))).rejects.toMatchObject({ kind: 'transient' })
  await running.close()
})
