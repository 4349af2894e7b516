import {
  AddTagsToResourceCommand,
  DeleteParametersCommand,
  DescribeParametersCommand,
  ListTagsForResourceCommand,
  PutParameterCommand,
  SSMClient,
} from '@aws-sdk/client-ssm'
import { expect, test } from 'vitest'
import { awsService } from '../../server/src/providers/aws-account.ts'
import { awsSsm as provider } from '../../server/src/providers/aws-ssm.ts'
import type { OpResult, Values } from '../../server/src/providers/provider.ts'
import { policyOf } from './aws-policy.ts'
import { describeProvider } from './conformance.ts'
import { awsKeys, awsRole } from './fake/aws.ts'
import { type FakeSsm, fakeSsm } from './fake/aws-ssm.ts'
import { type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const syncId = '0199a000-0000-7000-8000-000000000001'
const ours = [
  { Key: 'managed-by', Value: 'coffer' },
  { Key: 'coffer-sync', Value: syncId },
]

describeProvider(provider, fakeSsm, { names: ['ALPHA', 'BETA', 'GAMMA'] })
describeProvider(provider, () => fakeSsm({ format: 'other' }), { names: ['ALPHA', 'BETA', 'GAMMA'] })

const wire = ({ method, path, headers, json }: FakeRequest) => ({
  method,
  path,
  target: headers['x-amz-target'],
  type: headers['content-type'],
  json,
})
const kindsOf = (results: OpResult[]) =>
  results.map((result) => ('fault' in result ? Reflect.get(result.fault, 'kind') : 'done'))

async function scene(
  play: (fake: FakeSsm, running: RunningFake) => Promise<void>,
  fake: FakeSsm = fakeSsm(),
): Promise<void> {
  const running = await startFake(fake)
  await play(fake, running)
  await running.close()
  expect(fake.violations).toEqual([])
}

test('the official client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeSsm({ clock: Date.now }), { plain: true })
  const client = new SSMClient({ region: 'eu-central-1', endpoint: theirs.url, credentials: awsKeys })
  const whole = (name: string) => `/shop/production/${name}`
  const put = (name: string, value: string, more: object) =>
    client.send(
      new PutParameterCommand({ Name: whole(name), Value: value, Type: 'SecureString', Tier: 'Standard', ...more }),
    )
  const byPath = { Key: 'Path', Option: 'OneLevel', Values: ['/shop/production'] }
  const described = (...ParameterFilters: { Key: string; Values: string[] }[]) =>
    client.send(new DescribeParametersCommand({ ParameterFilters, MaxResults: 50 }))

  expect(await put('ALPHA', 'one', { Overwrite: false, Tags: ours })).toMatchObject({ Version: 1 })
  await put('ALPHA', 'two', { Overwrite: true })
  const marked = await described(byPath, { Key: 'tag:coffer-sync', Values: [syncId] })
  expect(marked.Parameters).toMatchObject([{ Name: whole('ALPHA'), Version: 2 }])
  const listed = await described(byPath)
  expect(listed.Parameters).toMatchObject([{ Name: whole('ALPHA'), Type: 'SecureString', Version: 2 }])
  await expect(put('ALPHA', 'three', { Overwrite: false, Tags: ours })).rejects.toThrow(/already exists/)
  const resource = { ResourceType: 'Parameter', ResourceId: whole('ALPHA') } as const
  expect(await client.send(new ListTagsForResourceCommand(resource))).toMatchObject({ TagList: ours })
  await put('ALPHA', 'three', { Overwrite: true })
  await put('BETA', 'four', { Overwrite: true })
  await client.send(new AddTagsToResourceCommand({ ...resource, ResourceId: whole('BETA'), Tags: ours }))
  expect(await client.send(new ListTagsForResourceCommand(resource))).toMatchObject({ TagList: ours })
  const missing = { ...resource, ResourceId: whole('NOBODY') }
  await expect(client.send(new ListTagsForResourceCommand(missing))).rejects.toThrow()
  expect(await client.send(new DeleteParametersCommand({ Names: [whole('ALPHA')] }))).toMatchObject({
    DeletedParameters: [whole('ALPHA')],
  })

  const mine = await startFake(fakeSsm({ clock: Date.now }))
  const connection = connectionTo(mine)
  await applyAll(provider, connection, [create('ALPHA', 'one')])
  await applyAll(provider, connection, [update('ALPHA', 'two')])
  await listAll(provider, connection)
  await applyAll(provider, connection, [create('ALPHA', 'three')])
  await applyAll(provider, connection, [update('BETA', 'four')])
  await applyAll(provider, connection, [remove({ name: 'ALPHA' }), remove({ name: 'NOBODY' })])
  expect(mine.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect([...mine.fake.violations, ...theirs.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), mine.close()])
})

test('parameters are SecureStrings with our tags and the chosen key, also when an update creates them', () =>
  scene(async (fake, running) => {
    const connection = connectionTo(running, { options: { kmsKeyId: 'alias/coffer', tier: 'Intelligent-Tiering' } })
    await applyAll(provider, connection, [create('A', 'x'.repeat(8_000)), update('B', 'two')])
    for (const name of ['A', 'B']) {
      expect(fake.parameter(`/shop/production/${name}`)).toMatchObject({
        type: 'SecureString',
        tags: ours,
        keyId: 'alias/coffer',
      })
    }
  }))

test('a create does not overwrite foreign parameters', () =>
  scene(async (fake, running) => {
    fake.tamper('A', 'theirs')
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('A', 'x'), create('B', 'y')]))).toEqual([
      'conflict',
      'done',
    ])
    expect(fake.state().get('A')).toBe('theirs')
  }))

test('under the policy of the form, an update re-creates a missing parameter and is denied for a foreign one', () =>
  scene(async (fake, running) => {
    fake.enforce(policyOf(provider, fake, syncId))
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    fake.tamper('A', undefined)
    expect(kindsOf(await applyAll(provider, connectionTo(running), [update('A', 'two')]))).toEqual(['done'])
    expect(fake.parameter('/shop/production/A')?.tags).toEqual(ours)
    fake.tamper('THEIRS', 'theirs')
    const work = applyAll(provider, connectionTo(running), [update('THEIRS', 'x')])
    await expect(work).rejects.toMatchObject({ kind: 'scope' })
    expect(fake.state().get('THEIRS')).toBe('theirs')
  }))

test.each([
  ['is refused', false, 'scope'],
  ['is done', true, 'done'],
])('under the policy printed by the wizard, a takeover %s when takeover is %s', (_title, takesOver, outcome) =>
  scene(async (fake, running) => {
    fake.tamper('A', 'theirs')
    fake.enforce(policyOf(provider, fake, syncId, { takesOver }))
    const remote = provider.connect(connectionTo(running))
    expect(await Array.fromAsync(remote.find?.([{ name: 'A' }]) ?? [])).toMatchObject([{ name: 'A', isOurs: false }])
    const work = Array.fromAsync(remote.apply([update('A', 'x')])).then(kindsOf, (error) => [error.kind])
    expect(await work).toEqual([outcome])
  }),
)

test('a parameter of another type is foreign, even with our tags', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    const parameter = fake.parameter('/shop/production/A')
    if (parameter) parameter.type = 'String'
    const remote = provider.connect(connectionTo(running))
    const looks = [remote.find?.([{ name: 'A' }]) ?? [], remote.list(new Set(['A']))]
    for (const items of looks) expect(await Array.fromAsync(items)).toEqual([{ name: 'A', mark: '1', isOurs: false }])
  }))

test('a delete reads the tags of each parameter, and keeps one that lacks ours', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one'), create('B', 'one')])
    fake.tamper('A', undefined)
    fake.tamper('A', 'theirs')
    const results = await applyAll(
      provider,
      connectionTo(running),
      ['A', 'B', 'GONE'].map((name) => remove({ name })),
    )
    const byName = results.toSorted((one, other) => one.name.localeCompare(other.name))
    expect(byName).toEqual([
      { name: 'A', isKept: true, note: 'The parameter stays: it lacks our tags.' },
      { name: 'B' },
      { name: 'GONE' },
    ])
    expect(Object.fromEntries(fake.state())).toEqual({ A: 'theirs' })
  }))

test('the policy of the form allows nothing outside of the path, the region and the account', () =>
  scene(async (fake, running) => {
    const policy = policyOf(provider, fake, syncId)
    const beside = { ...fake.target, path: '/shop/other' }
    const kindAt = async (target: Values) => {
      const work = applyAll(provider, connectionTo(running, { target }), [create('A', 'x')])
      return work.then(kindsOf, (error) => [error.kind])
    }
    fake.enforce(policy)
    expect(await kindAt(beside)).toEqual(['scope'])
    expect(await kindAt(fake.target)).toEqual(['done'])
    for (const [from, to] of [
      [/eu-central-1/g, 'eu-west-1'],
      [/111122223333/g, '999900001111'],
    ] as const) {
      fake.enforce(JSON.parse(JSON.stringify(policy).replace(from, to)))
      expect(await kindAt(fake.target)).toEqual(['scope'])
    }
  }))

test('under the policy of the form, the tags of the sync can be put on an untagged parameter, but not on one of another sync', () =>
  scene(async (fake, running) => {
    fake.enforce(policyOf(provider, fake, syncId))
    for (const name of ['UNTAGGED', 'OTHER']) fake.tamper(name, 'theirs')
    fake.parameter('/shop/production/OTHER')?.tags.push({ Key: 'coffer-sync', Value: 'of another sync' })
    const aws = awsService(connectionTo(running), 'ssm', 'AmazonSSM')
    const tag = (name: string, Tags = ours) =>
      aws
        .call('AddTagsToResource', { ResourceType: 'Parameter', ResourceId: `/shop/production/${name}`, Tags })
        .then(() => 'done', Object)
    expect(await tag('OTHER')).toMatchObject({ kind: 'scope' })
    expect(await tag('UNTAGGED', [...ours, { Key: 'team', Value: 'admins' }])).toMatchObject({ kind: 'scope' })
    // The description of the policy says so.
    expect(await tag('UNTAGGED')).toBe('done')
    const field = provider.auth.find(({ id }) => id === 'policy')
    expect(field?.description).toContain('The right to tag cannot be limited to new entries')
  }))

test('deletes go in batches of ten, and parameters below or beside the path are ignored', () =>
  scene(async (fake, running) => {
    const names = Array.from({ length: 12 }, (_, index) => `A${index}`)
    fake.tamper('deeper/A', 'x')
    fake.tamper('../productionA', 'x')
    await applyAll(
      provider,
      connectionTo(running),
      names.map((name) => create(name, 'x')),
    )
    expect(await listAll(provider, connectionTo(running))).toHaveLength(12)
    running.forget()
    await applyAll(
      provider,
      connectionTo(running),
      names.map((name) => remove({ name })),
    )
    // The tags of each parameter are read before it is deleted.
    expect(running.requests).toHaveLength(12 + 2)
    expect(fake.state().size).toBe(0)
  }))

test('a role is assumed with the sync id as the external id', async () => {
  const fake = fakeSsm({ externalId: syncId })
  const running = await startFake(fake)
  const credential = { method: 'role', roleArn: awsRole, ...awsKeys }
  await applyAll(provider, connectionTo(running, { credential }), [create('A', 'one')])
  expect(fake.state()).toEqual(new Map([['A', 'one']]))
  expect(running.requests[0]?.host).toBe('sts.eu-central-1.amazonaws.com')
  expect(fake.violations).toEqual([])
  await running.close()
})

test.each([
  ['{{ssm:other}}', {}, 'contains {{, which Parameter Store treats as a reference to another parameter.'],
  ['{"a":{"b":1}}', {}, undefined],
  ['x'.repeat(4_097), {}, 'is larger than 4 KB, which only the tier Intelligent-Tiering accepts.'],
  ['é'.repeat(2_049), { tier: 'Standard' }, 'is larger than 4 KB, which only the tier Intelligent-Tiering accepts.'],
  ['x'.repeat(8_192), { tier: 'Intelligent-Tiering' }, undefined],
])('rejects values that the vendor would misread: %s', (value, options, problem) => {
  expect(provider.limits.refuseValue?.(value, options)).toBe(problem)
})

test.each([
  ['/shop/production/', true],
  ['/shop', true],
  ['/', false],
  ['', false],
  ['shop/', false],
  ['//shop', false],
  ['/aws/service', false],
  ['/SSM-things/', false],
  ['/shop/prod?x', false],
  [`/a${'/b'.repeat(13)}/`, true],
  [`/a${'/b'.repeat(14)}/`, false],
])('the path %s is accepted: %s', (value, isAccepted) => {
  const field = provider.target.find(({ id }) => id === 'path')
  expect(field?.kind === 'text' && field.check?.(value, {}) === undefined).toBe(isAccepted)
})

test.each([
  ['behind', -20],
  ['ahead', 20],
])(
  'a clock that is %s is reported as the cause, but a small offset still reports a wrong key',
  async (off, minutes) => {
    const fake = fakeSsm({ clock: Date.now })
    const running = await startFake(fake)
    const by = (minutes: number) => ({ now: () => Date.now() + minutes * 60_000 })
    const message = `The clock of this server is 20 minutes ${off}, so the service refuses its signatures: correct the clock.`
    for (const work of [
      () => provider.verify(connectionTo(running, by(minutes))),
      () => listAll(provider, connectionTo(running, by(minutes))),
    ]) {
      await expect(work()).rejects.toMatchObject({ kind: 'transient', message })
    }
    const wrong = { ...by(minutes / 20), credential: fake.wrongCredential }
    await expect(provider.verify(connectionTo(running, wrong))).rejects.toMatchObject({ kind: 'auth' })
    await running.close()
  },
)

test('two paths of one account have different fingerprints; a trailing slash does not matter', () => {
  const place = (path: string) =>
    provider.describeTarget({ region: 'eu-central-1', path }, { method: 'keys', ...awsKeys }).fingerprint
  expect(place('/shop')).toBe(place('/shop/'))
  expect(place('/shop')).not.toBe(place('/shop/production'))
})
