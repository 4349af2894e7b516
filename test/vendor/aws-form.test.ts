import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { awsSecretsManager } from '../../server/src/providers/aws-secrets-manager.ts'
import { awsSsm } from '../../server/src/providers/aws-ssm.ts'
import type { Field, Provider, Values } from '../../server/src/providers/provider.ts'

const providers = [awsSecretsManager, awsSsm]
const syncId = '0199a000-0000-7000-8000-000000000001'

const fieldOf = (fields: readonly Field[], id: string) => {
  const field = fields.find((one) => one.id === id)
  if (field === undefined) throw new Error(`no field ${id}`)
  return field
}
const noAnswers = { target: {}, mapping: {} }
type Others = { readonly target: Values; readonly mapping: Values }
const textOf = ({ auth }: Provider, id: string, values: Values, others: Others = noAnswers, takesOver = false) => {
  const field = fieldOf(auth, id)
  if (field.kind !== 'copy') throw new Error(`${id} is not a copy field`)
  return JSON.parse(field.text({ syncId, values, ...others, takesOver }))
}

/** Regions and domains as the official client lists them. */
function knownPartitions(): { id: string; outputs: { dnsSuffix: string }; regions: Record<string, object> }[] {
  const core = dirname(createRequire(import.meta.url).resolve('@aws-sdk/core/package.json'))
  const file = join(core, 'dist-es/submodules/client/util-endpoints/lib/aws/partitions.js')
  const json = /=\s*(\{[\s\S]*\});?\s*$/.exec(readFileSync(file, 'utf8'))?.[1] ?? ''
  return JSON.parse(json).partitions
}

test.each(providers)('the regions of $slug are those of the official client', async ({ target, connect }) => {
  const region = fieldOf(target, 'region')
  if (region.kind !== 'select' || typeof region.options !== 'function') throw new Error('not a select')
  const known = knownPartitions().filter(({ id }) => ['aws', 'aws-cn', 'aws-us-gov', 'aws-eusc'].includes(id))
  expect(known).toHaveLength(4)
  for (const { id, outputs, regions } of known) {
    const asked: string[] = []
    const connection = (values: Values) => ({
      http: {
        send: async ({ url }: { url: string }) => {
          asked.push(url)
          throw new Error('stop after the first request')
        },
      },
      credential: { method: 'keys', partition: id, accessKeyId: 'A', secretAccessKey: 's' },
      target: values,
      options: {},
      syncId,
      now: Date.now,
    })
    const offered = (await region.options(connection({})))?.map(({ value }) => value) ?? []
    expect([...offered].sort()).toEqual(
      Object.keys(regions)
        .filter((name) => !name.endsWith('-global'))
        .sort(),
    )
    for (const value of offered) {
      expect(region.check?.(value, {})).toBeUndefined()
      const values = { region: value, path: '/shop/' }
      await expect(Array.fromAsync(connect(connection(values)).list(new Set()))).rejects.toThrow(
        'stop after the first request',
      )
      expect(asked.at(-1)).toMatch(new RegExp(`^https://[a-z]+\\.${value}\\.${outputs.dnsSuffix}/$`))
    }
    const foreign = id === 'aws' ? 'cn-north-1' : 'eu-central-1'
    const list = connect(connection({ region: foreign, path: '/shop/' })).list(new Set())
    await expect(Array.fromAsync(list)).rejects.toMatchObject({ kind: 'gone', facts: { field: 'region' } })
  }
  expect(region.check?.('eu-central-1.example.com/', {})).toBe('is not a region.')
})

test.each(providers)('the policies of $slug are restricted to the sync', (provider) => {
  const trust = textOf(provider, 'trustPolicy', { method: 'role' })
  expect(trust.Statement[0].Condition).toEqual({ StringEquals: { 'sts:ExternalId': syncId } })
  const role = { method: 'role', partition: 'aws-cn', roleArn: 'arn:aws-cn:iam::111122223333:role/coffer' }
  const others = {
    target: { region: 'cn-north-1', path: '/shop/production/' },
    mapping: { mode: 'per-key', prefix: 'shop/production/' },
  }
  const { Statement } = textOf(provider, 'policy', role, others)
  const allowed: { Action: string | string[]; Resource: string | string[]; Condition?: unknown }[] = Statement
  for (const { Action, Resource, Condition } of allowed) {
    const actions = [Action].flat()
    expect(actions.join()).not.toMatch(/\*|ByPath/)
    const isOfNothing = /:(ListSecrets|DescribeParameters)$/.test(actions.join())
    if (isOfNothing) expect([Resource, JSON.stringify(Condition)]).toEqual(['*', expect.stringContaining('cn-north-1')])
    else
      for (const arn of [Resource].flat())
        expect(arn).toMatch(/^arn:aws-cn:\w+:cn-north-1:111122223333:.*shop\/production\/\*$/)
    const isReading = actions.every((action) => /:(List|Describe|Get)/.test(action))
    if (!isReading) expect(JSON.stringify(Condition)).toContain(syncId)
  }
})

test.each(providers)('unknown answers are words in capitals in the policy of $slug', (provider) => {
  const { Statement } = textOf(provider, 'policy', {})
  const texts = JSON.stringify(Statement)
  expect(texts).toMatch(/arn:aws:\w+:REGION:ACCOUNT:(parameter\/PATH\/\*|secret:PREFIX\*)/)
  const field = fieldOf(provider.auth, 'policy')
  for (const word of ['REGION', 'ACCOUNT', 'PATH', 'PREFIX']) expect(field.description).toContain(word)
})

test.each(providers)(
  'with takeover, the policy of $slug additionally allows overwriting and nothing else',
  (provider) => {
    const [narrow, wide] = [false, true].map(
      (takesOver) => textOf(provider, 'policy', {}, noAnswers, takesOver).Statement,
    )
    expect(wide.slice(0, -1)).toEqual(narrow)
    const { Action, Resource, Condition } = wide.at(-1)
    expect(Action).toMatch(/:(PutSecretValue|PutParameter)$/)
    expect([Resource === '*', Condition]).toEqual([false, undefined])
  },
)

test.each([
  [
    'a new key id, which contains the account',
    { method: 'keys', accessKeyId: 'AKIARTX3GSDSQAAAAAAA' },
    'aws/111122223333',
  ],
  [
    'an account number with a leading zero',
    { method: 'keys', accessKeyId: 'ASIAQNZGKIQY56JQ7WML' },
    'aws/029608264753',
  ],
  [
    'an old key id, which does not contain the account',
    { method: 'keys', accessKeyId: 'AKIAIOSFODNN7EXAMPLE' },
    'aws/AKIAIOSFODNN7EXAMPLE',
  ],
  ['a role', { method: 'role', roleArn: 'arn:aws:iam::111122223333:role/x' }, 'aws/111122223333'],
])('the fingerprint of a target is the account and the region: %s', (_title, credential, place) => {
  const { fingerprint } = awsSecretsManager.describeTarget({ region: 'eu-central-1' }, credential)
  expect(fingerprint).toBe(`${place}/eu-central-1`)
})

test.each([
  ['accessKeyId', 'akia', 'is not an access key ID.'],
  ['roleArn', 'arn:aws:iam::1:role/x', 'is not the ARN of a role.'],
  ['roleArn', 'arn:aws:iam::111122223333:user/x', 'is not the ARN of a role.'],
])('%s rejects %s', (id, value, message) => {
  const field = fieldOf(awsSecretsManager.auth, id)
  expect(field.kind !== 'copy' && field.check?.(value, {})).toBe(message)
})
