// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Exports of other tools, in the form that each of them prints: what is recognised, and which names come out. */
import { describe, expect, test } from 'vitest'
import { nameSecrets } from './name.ts'
import { recognise } from './recognise.ts'

const print = (value: unknown) => JSON.stringify(value, undefined, 2)

/** The secrets of an export of another tool by name. */
function read(text: string, format?: string) {
  const recognised = recognise(text, 'export.json', format)
  if (recognised.kind === 'file') return recognised.format
  const { secrets } = nameSecrets(recognised.found)
  return {
    tool: recognised.name,
    ...Object.fromEntries(secrets.map(({ key, value }) => [key, value])),
  }
}

const leftOutOf = (text: string) => {
  const recognised = recognise(text, undefined, undefined)
  return recognised.kind === 'tool' ? recognised.found.leftOut : undefined
}

/** The answer of Vault around the data, as `vault kv get -format=json` prints it. */
const vaultAnswer = (data: unknown) => ({
  request_id: '1f2f3c0c-7a51-4f0e-9d4c-6c3b3a2f5d10',
  lease_id: '',
  lease_duration: 2764800,
  renewable: false,
  data,
  warnings: null,
})
const versioned = (data: unknown) => ({
  data,
  metadata: {
    created_time: '2024-11-13T21:58:32.128442898Z',
    custom_metadata: null,
    deletion_time: '',
    destroyed: false,
    version: 3,
  },
})

describe('Vault', () => {
  test('KV version 2', () => {
    const text = print(vaultAnswer(versioned({ DATABASE_URL: 'postgres://db', 'api.key': 'k' })))
    expect(read(text)).toEqual({ tool: 'Vault', DATABASE_URL: 'postgres://db', API_KEY: 'k' })
  })

  test('KV version 1', () => {
    expect(read(print(vaultAnswer({ foo: 'bar', ttl: '1h' })))).toEqual({ tool: 'Vault', foo: 'bar', ttl: '1h' })
  })

  test('an object of paths, with fields or with whole answers; what all paths share is left out of the names', () => {
    const fields = { 'secret/shop/db': { password: 'p' }, 'secret/shop/mail': { password: 'q', user: 'u' } }
    expect(read(print(fields))).toEqual({ tool: 'Vault', DB_PASSWORD: 'p', MAIL_PASSWORD: 'q', MAIL_USER: 'u' })
    const answers = { db: vaultAnswer(versioned({ password: 'p' })), mail: vaultAnswer({ password: 'q' }) }
    expect(read(print(answers))).toEqual({ tool: 'Vault', DB_PASSWORD: 'p', MAIL_PASSWORD: 'q' })
    expect(read(print({ app: { KEY: 'v' } }), 'vault')).toEqual({ tool: 'Vault', KEY: 'v' })
  })

  test('numbers keep their digits, and objects become JSON', () => {
    const text = '{"lease_id":"","data":{"big":12345678901234567890,"price":1.10,"on":true,"tree":{"a":[1.0]}}}'
    expect(read(text)).toEqual({
      tool: 'Vault',
      big: '12345678901234567890',
      price: '1.10',
      on: 'true',
      tree: '{"a":[1.0]}',
    })
  })

  test.each([
    ['a deleted version', vaultAnswer(versioned(null)), /the version was deleted/],
    ['a field that is null', vaultAnswer({ KEY: null }), /These fields are null: KEY\. Nothing was imported\./],
  ])('refuses %s', (_, answer, message) => {
    expect(() => read(print(answer))).toThrow(message)
  })
})

describe('Doppler', () => {
  const own = { DOPPLER_CONFIG: 'dev', DOPPLER_ENVIRONMENT: 'dev', DOPPLER_PROJECT: 'shop' }
  const detailed = (value: string | null, note = '') => ({
    computed: value,
    computedVisibility: value === null ? 'restricted' : 'masked',
    note,
  })

  test('secrets --json: computed values and notes, without the names that Doppler adds', () => {
    const text = print({
      API_KEY: { ...detailed('k', 'of the shop'), raw: '${shop.dev.KEY}', rawVisibility: 'masked' },
      DOPPLER_PROJECT: detailed('shop'),
    })
    expect(read(text)).toEqual({ tool: 'Doppler', API_KEY: 'k' })
    expect(leftOutOf(text)).toEqual(["DOPPLER_PROJECT (Doppler's own)"])
    const recognised = recognise(text, undefined, undefined)
    expect(recognised.kind === 'tool' && nameSecrets(recognised.found).secrets).toEqual([
      { key: 'API_KEY', value: 'k', note: 'of the shop' },
    ])
  })

  test('the form of older versions', () => {
    expect(read('{"A":{"computed":"1"},"B":{"computed":""}}')).toEqual({ tool: 'Doppler', A: '1', B: '' })
  })

  test('secrets download', () => {
    expect(read(print({ API_KEY: 'k', ...own }))).toEqual({ tool: 'Doppler', API_KEY: 'k' })
  })

  test('refuses restricted secrets by name', () => {
    expect(() => read(print({ SECRET: detailed(null), OTHER: detailed('x') }))).toThrow(
      'Doppler restricts these secrets, so the export has no value for them: SECRET. Nothing was imported.',
    )
  })
})

test('Infisical: a list of secrets with folders and comments', () => {
  const secret = (key: string, value: string, secretPath: string, comment = '') => ({
    key,
    workspace: '64f1c2',
    value,
    type: 'shared',
    _id: '6501d7',
    secretPath,
    tags: [],
    comment,
    Etag: 'x',
    skipMultilineEncoding: false,
  })
  const text = JSON.stringify([secret('A', '1', '/'), secret('B', '2\n3', '/mail', 'for mail')])
  expect(read(text)).toEqual({ tool: 'Infisical', A: '1', MAIL_B: '2\n3' })
  expect(read('[{"key":"A","value":"1"}]')).toEqual({ tool: 'Infisical', A: '1' })
})

describe('1Password', () => {
  const item = (title: string, fields: unknown[]) => ({
    id: 'kiramv6tpjijkuci7fig4lndta',
    title,
    version: 2,
    vault: { id: 'h4x', name: 'Work' },
    category: 'API_CREDENTIAL',
    created_at: '2024-01-15T10:30:00Z',
    updated_at: '2024-06-20T14:45:00Z',
    fields,
  })
  const fields = [
    { id: 'username', type: 'STRING', purpose: 'USERNAME', label: 'username' },
    {
      id: 'credential',
      type: 'CONCEALED',
      label: 'secret access key',
      value: 'wJalr',
      reference: 'op://Work/aws/credential',
    },
    { id: 'q5', section: { id: 'add more' }, type: 'STRING', label: 'region', value: 'eu-1' },
    { id: 'q6', section: { id: 's1', label: 'Database' }, type: 'CONCEALED', label: 'password', value: 'p' },
  ]

  test('an item: labels become names, empty fields are left out', () => {
    const text = print(item('aws', fields))
    expect(read(text)).toEqual({
      tool: '1Password',
      SECRET_ACCESS_KEY: 'wJalr',
      region: 'eu-1',
      DATABASE_PASSWORD: 'p',
    })
    expect(leftOutOf(text)).toEqual(['aws/username (empty)'])
  })

  test('several items, one after the other or as a list', () => {
    const items = [item('Git Hub', fields.slice(1, 2)), item('mail', fields.slice(2, 3))]
    const expected = { tool: '1Password', GIT_HUB_SECRET_ACCESS_KEY: 'wJalr', MAIL_REGION: 'eu-1' }
    expect(read(items.map(print).join('\n'))).toEqual(expected)
    expect(read(print(items))).toEqual(expected)
  })

  test('single fields', () => {
    expect(read(print(fields.slice(1, 3)))).toEqual({ tool: '1Password', SECRET_ACCESS_KEY: 'wJalr', region: 'eu-1' })
    expect(read(print(fields[2]))).toEqual({ tool: '1Password', region: 'eu-1' })
  })

  test('refuses a list of items without fields', () => {
    const { fields: _, ...listed } = item('aws', [])
    expect(() => read(print([listed]))).toThrow('This is a list of items of 1Password without their fields.')
  })
})

describe('AWS', () => {
  const secret = (Name: string, SecretString: string) => ({
    ARN: `arn:aws:secretsmanager:eu-1:123456789012:secret:${Name}-a1b2c3`,
    Name,
    VersionId: 'a1b2c3d4-5678-90ab-cdef-EXAMPLE11111',
    SecretString,
    VersionStages: ['AWSCURRENT'],
    CreatedDate: '2025-03-15T14:30:00.123000+00:00',
  })
  const parameter = (Name: string, Value: string, Type = 'SecureString') => ({
    Name,
    Type,
    Value,
    Version: 1,
    LastModifiedDate: '2024-05-01T10:00:00.000000+00:00',
    ARN: `arn:aws:ssm:eu-1:123456789012:parameter${Name}`,
    DataType: 'text',
  })

  test('a secret that holds JSON, and one that holds text', () => {
    const text = secret('prod/db', '{"username":"u","port":5432}')
    expect(read(print(text))).toEqual({ tool: 'AWS', username: 'u', port: '5432' })
    expect(read(print(secret('prod/app/STRIPE_KEY', 'sk')))).toEqual({ tool: 'AWS', STRIPE_KEY: 'sk' })
  })

  test('several secrets of batch-get-secret-value', () => {
    const answer = { SecretValues: [secret('prod/db', '{"user":"u"}'), secret('prod/key', 'k')], Errors: [] }
    expect(read(print(answer))).toEqual({ tool: 'AWS', DB_USER: 'u', key: 'k' })
  })

  test('parameters below a path', () => {
    const answer = { Parameters: [parameter('/prod/app/DB_URL', 'u'), parameter('/prod/app/mail/key', 'k', 'String')] }
    expect(read(print(answer))).toEqual({ tool: 'AWS', DB_URL: 'u', MAIL_KEY: 'k' })
    expect(read(print({ Parameter: parameter('/prod/app/DB_URL', 'u') }))).toEqual({ tool: 'AWS', DB_URL: 'u' })
  })

  test('a JSON parameter stays one secret', () => {
    expect(read(print({ Parameters: [parameter('/a/B', '{"x":1}')] }))).toEqual({ tool: 'AWS', B: '{"x":1}' })
  })

  test('warns of what is missing', () => {
    const answer = { SecretValues: [secret('a', 'k')], Errors: [{ SecretId: 'b' }], NextToken: 'n' }
    const recognised = recognise(print(answer), undefined, undefined)
    expect(recognised.kind === 'tool' && recognised.found.warnings).toEqual([
      'The export is one page of several: it has a NextToken.',
      'AWS has not given these: b.',
    ])
  })

  test.each([
    [
      'binary secrets',
      { ...secret('prod/cert', ''), SecretString: undefined, SecretBinary: 'AAEC' },
      /binary.*prod\/cert/,
    ],
    ['encrypted parameters', { Parameters: [parameter('/p/K', `AQICA${'h'.repeat(100)}`)] }, /still encrypted: \/p\/K/],
    ['null in a secret', secret('prod/db', '{"a":null}'), /null: prod\/db\/a/],
  ])('refuses %s', (_, answer, message) => {
    expect(() => read(print(answer))).toThrow(message)
  })
})

describe('names', () => {
  const vault = (data: unknown) => print(vaultAnswer(data))

  test.each([
    ['two secrets with one name', { 'a.b': '1', 'a/b': '2' }, /the same name: a\.b and a\/b → A_B\./],
    ['a name without letters', { '///': '1' }, /cannot be turned.*: \/\/\//],
    ['letters of another script', { пароль: '1' }, /cannot be turned/],
    ['a name that is too long', { ['x'.repeat(256)]: '1' }, /cannot be turned/],
    ['a value that is too large', { KEY: 'x'.repeat(65 * 1024) }, /larger than 64 KiB: KEY/],
    ['half a character', { KEY: '\ud800' }, /not valid Unicode: KEY/],
  ])('refuses %s', (_, data, message) => {
    expect(() => read(vault(data))).toThrow(message)
  })

  test('accents are dropped, valid names stay', () => {
    expect(read(vault({ 'Clé café': '1', 'kebab-name_x': '2' }))).toEqual({
      tool: 'Vault',
      CLE_CAFE: '1',
      'kebab-name_x': '2',
    })
  })

  test('values of other tools hold no references', () => {
    expect(read(vault({ KEY: '${OTHER} $${X} ${' }))).toEqual({ tool: 'Vault', KEY: '$${OTHER} $$${X} $${' })
  })

  test('no error holds a value', () => {
    const text = print({ Parameters: [{ Name: '/a', Type: 'String', Value: { canary: 'c4n4ry' } }] })
    expect(() => read(text, 'aws')).toThrow(/^This is not a JSON export of AWS\.$/)
  })
})

describe('files that the service reads', () => {
  test.each([
    ['A=1\n', undefined, 'dotenv'],
    ['# A: b\nexport A=1\n', '.env.local', 'dotenv'],
    ['A: 1\n', undefined, 'yaml'],
    ['A=1\n', 'x.yml', 'yaml'],
    ['key,value\nA,1\n', undefined, 'csv'],
    ['"Key","Value"\nA,1\n', undefined, 'csv'],
    ['\ufeff{"A":"1"}', undefined, 'json'],
    ['{"A":"1"', undefined, 'json'],
    ['{"A":"1"}', 'x.env', 'json'],
  ])('%j in %s is %s', (text, name, format) => {
    expect(recognise(text, name, undefined)).toEqual({ kind: 'file', format })
  })

  test('a format that is named is not guessed', () => {
    expect(recognise('[{"key":"A","value":"1"}]', 'x.json', 'csv')).toEqual({ kind: 'file', format: 'csv' })
  })

  test('refuses JSON that no tool prints', () => {
    expect(() => read('[1,2]')).toThrow('This is JSON, but not the export of a known tool.')
    expect(() => read('{"A":"1"}', 'infisical')).toThrow('This is not a JSON export of Infisical.')
  })
})
