/** The master key has one source, and the settings file is read and validated like the environment. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { type Environment, expectRefusal, refusalOf } from '../../test/config-refusal.ts'
import { readConfig } from './config.ts'

const folder = mkdtempSync(join(tmpdir(), 'coffer-config-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function writeSettings(content: string): string {
  const path = join(folder, `settings-${++files}.env`)
  writeFileSync(path, content)
  return path
}

describe('the master key', () => {
  const sources: Environment = {
    COFFER_MASTER_KEY: 'hunter2hunter2hunter2hunter2hunter2hunter2hu',
    COFFER_MASTER_KEY_FILE: '/run/key',
    COFFER_MASTER_KEY_COMMAND: 'print-key hunter2',
    COFFER_MASTER_KEY_KMS: 'arn:aws:kms:eu-west-1:1:key/hunter2',
    COFFER_MASTER_KEY_TRANSIT: 'https://vault.example.com/v1/transit/keys/hunter2',
  }
  const names = Object.keys(sources)
  const pairs = names.flatMap((one, at) => names.slice(at + 1).map((other): [string, string] => [one, other]))

  test.each(pairs)('is rejected when both %s and %s are set', (one, other) => {
    const message = refusalOf({ [one]: sources[one] ?? '', [other]: sources[other] ?? '', VAULT_TOKEN: 'x' })
    expect(message).toContain(one)
    expect(message).toContain(other)
    expect(message).toMatch(/^COFFER_MASTER_KEY.*only one.*\.$/)
    expect(message).not.toContain('hunter2')
  })

  test('takes its region from the ARN, or from the environment', () => {
    const arn = 'arn:aws:kms:eu-west-1:111122223333:key/1234'
    expect(readConfig({ COFFER_MASTER_KEY_KMS: arn, AWS_REGION: 'us-east-1' }).masterKey).toEqual({
      kind: 'aws-kms',
      keyId: arn,
      region: 'eu-west-1',
    })
    const custom = {
      COFFER_MASTER_KEY_KMS: '1234',
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL_KMS: 'http://localhost:1',
    }
    expect(readConfig(custom).masterKey).toEqual({
      kind: 'aws-kms',
      keyId: '1234',
      region: 'us-east-1',
      endpoint: 'http://localhost:1',
    })
  })

  test('takes AWS credentials from the environment or the settings file', () => {
    const lines = ['AWS_ACCESS_KEY_ID=AKID', 'AWS_SECRET_ACCESS_KEY=from the file', 'AWS_SESSION_TOKEN=session']
    const path = writeSettings(['COFFER_MASTER_KEY_KMS=alias/coffer', 'AWS_REGION=eu-west-1', ...lines].join('\n'))
    const credentials = { accessKeyId: 'AKID', secretAccessKey: 'from the file', sessionToken: 'session' }
    expect(readConfig({ COFFER_CONFIG: path }).masterKey).toMatchObject({ kind: 'aws-kms', credentials })
    expect(readConfig({ COFFER_CONFIG: path, AWS_SECRET_ACCESS_KEY: 'wins' }).masterKey).toMatchObject({
      credentials: { ...credentials, secretAccessKey: 'wins' },
    })
  })

  test('reads the mount, key, token and namespace of Vault', () => {
    const address = 'https://vault.example.com:8200/v1/team/transit/keys/coffer/'
    const named = { COFFER_MASTER_KEY_TRANSIT: address, VAULT_TOKEN: 'hvs.x' }
    const source = {
      kind: 'transit',
      address: 'https://vault.example.com:8200',
      mount: 'team/transit',
      key: 'coffer',
      token: 'hvs.x',
    }
    expect(readConfig(named).masterKey).toEqual(source)
    expect(readConfig({ ...named, VAULT_NAMESPACE: 'admin' }).masterKey).toEqual({ ...source, namespace: 'admin' })
    expectRefusal({ COFFER_MASTER_KEY_TRANSIT: address }, 'COFFER_MASTER_KEY_TRANSIT')
  })
})

describe('the settings file named by COFFER_CONFIG', () => {
  test('accepts comments, blank lines, quotes, "export", a byte order mark and Windows line endings', () => {
    const lines = [
      '\uFEFFCOFFER_PORT=9000',
      '',
      '  # a comment',
      'export COFFER_SIGNUP = "open" # so',
      "COFFER_HOST='::1'",
    ]
    const path = writeSettings(lines.join('\r\n'))
    expect(readConfig({ COFFER_CONFIG: path })).toMatchObject({ port: 9_000, signup: 'open', host: '::1' })
  })

  test.each([
    ['COFFER_PORT 9000', 'is not NAME=value'],
    ['COFFER_PORT: 9000', 'is not NAME=value'],
    ['hunter2', 'is not NAME=value'],
    ['=hunter2', 'is not NAME=value'],
    ['COFFER-PORT=9000', 'is not NAME=value'],
    ['set COFFER_PORT=9000', 'is not NAME=value'],
    ['COFFER_MASTER_KEY="hunter2', 'has a quote that is never closed'],
    ['COFFER_METRICS_TOKEN=hunter2#hunter3', 'has a # in its value: put the value in quotes'],
    ['COFFER_METRICS_TOKEN=#hunter2', 'has a # in its value: put the value in quotes'],
    ['COFFER_METRICS_TOKEN="hunter2"hunter3"', 'has text after its closing quote'],
    ["COFFER_METRICS_TOKEN='hunter2' hunter3", 'has text after its closing quote'],
  ])('is rejected for a malformed line, by its number and without its text: %s', (line, problem) => {
    const path = writeSettings(`COFFER_SIGNUP=open\n\n${line}\nCOFFER_LOG_LEVEL="debug"\n`)
    const message = expectRefusal({ COFFER_CONFIG: path }, 'COFFER_CONFIG')
    expect(message).toBe(`COFFER_CONFIG: line 3 of the file ${path} ${problem}.`)
  })

  test('accepts settings, comments and quotes', () => {
    const path = writeSettings('# a comment\nCOFFER_PORT=9000\nexport COFFER_SIGNUP="open"\n\nCOFFER_HOST=::1 # here\n')
    expect(readConfig({ COFFER_CONFIG: path })).toMatchObject({ port: 9_000, signup: 'open', host: '::1' })
  })

  test('accepts a # inside quotes, and comments with any text', () => {
    const path = writeSettings(
      'COFFER_METRICS_TOKEN="hunter#2"# one #\nCOFFER_SIGNUP=open # see a#b\nCOFFER_HOST= # none\n',
    )
    expect(readConfig({ COFFER_CONFIG: path })).toMatchObject({ metricsToken: 'hunter#2', signup: 'open' })
  })

  test('is overridden by the environment', () => {
    const path = writeSettings('COFFER_PORT=9000\nCOFFER_LOG_LEVEL=debug\n')
    expect(readConfig({ COFFER_CONFIG: path, COFFER_PORT: '9001' })).toMatchObject({ port: 9_001, logLevel: 'debug' })
  })

  test('may contain the settings of the master key', () => {
    const lines = ['COFFER_MASTER_KEY_TRANSIT=https://v.example/v1/transit/keys/k', 'VAULT_TOKEN=hvs.file']
    expect(readConfig({ COFFER_CONFIG: writeSettings(lines.join('\n')) }).masterKey).toMatchObject({
      token: 'hvs.file',
    })
  })

  test('is validated like the environment', () => {
    expectRefusal({ COFFER_CONFIG: writeSettings('COFFER_PORT=hunter2') }, 'COFFER_PORT')
    expectRefusal({ COFFER_CONFIG: writeSettings('COFFER_PROT=9000') }, 'COFFER_PROT')
    const path = writeSettings('COFFER_MASTER_KEY=hunter2')
    expect(refusalOf({ COFFER_CONFIG: path, COFFER_MASTER_KEY_FILE: '/run/key' })).not.toContain('hunter2')
  })

  test.each([join(folder, 'missing.env'), folder])('must be a readable file: %s', (path) => {
    expect(expectRefusal({ COFFER_CONFIG: path }, 'COFFER_CONFIG')).toContain(path)
  })
})
