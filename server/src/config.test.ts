/** Every setting has a default, accepts valid values, and refuses others in one sentence with its name. */
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { expectRefusal, refusalOf } from '../../test/config-refusal.ts'
import { parseRange } from './address-range.ts'
import { type Config, isLoopback, readConfig } from './config.ts'
import { settings } from './setting.ts'

const range = (text: string) => {
  const parsed = parseRange(text)
  if (!parsed) throw new Error(text)
  return parsed
}

const backupDefaults = { to: undefined, name: '', everyMs: 86_400_000, keep: { daily: 7, weekly: 4, monthly: 12 } }

test('every setting has a default', () => {
  const expected: Config = {
    host: '127.0.0.1',
    port: 8080,
    publicUrl: 'http://localhost:8080',
    tls: undefined,
    plainHttp: false,
    dataDir: resolve('./data'),
    databaseUrl: undefined,
    masterKey: { kind: 'file', path: resolve('./data/master.key') },
    rateLimit: 200,
    exchangeRateLimit: 10,
    shareRateLimit: 60,
    tokenPrefix: 'cof',
    outboundWorkspaces: 'all',
    trustedProxies: [],
    redisUrl: undefined,
    sync: true,
    signup: 'invite',
    setupCode: undefined,
    smtpUrl: undefined,
    mailFrom: undefined,
    auditDays: undefined,
    drainSeconds: 0,
    backup: backupDefaults,
    s3: { region: undefined, endpoint: undefined, credentials: undefined },
    outboundAllow: { hosts: new Set(), ranges: [] },
    metricsPort: undefined,
    metricsToken: undefined,
    logLevel: 'info',
  }
  expect(readConfig({})).toEqual(expected)
})

test('an empty or blank setting counts as unset, and space around a value is trimmed', () => {
  const blank = Object.fromEntries(settings.map(({ name }, at) => [name, at % 2 ? '' : '  ']))
  expect(readConfig(blank)).toEqual(readConfig({}))
  expect(readConfig({ COFFER_PORT: ' 9000 ', COFFER_HOST: '\t::1\n' })).toMatchObject({ port: 9000, host: '::1' })
})

test('variables without the prefix COFFER_ are ignored', () => {
  expect(readConfig({ PATH: '/bin', NODE_ENV: 'production', PORT: '1', MASTER_KEY: 'x' })).toEqual(readConfig({}))
})

const accepted: [string, string, Partial<Config>][] = [
  ['COFFER_HOST', '0.0.0.0', { host: '0.0.0.0' }],
  ['COFFER_HOST', 'fe80::1%eth0', { host: 'fe80::1%eth0' }],
  ['COFFER_HOST', 'my_service.example.com', { host: 'my_service.example.com' }],
  ['COFFER_PORT', '0', { port: 0 }],
  ['COFFER_PORT', '65535', { port: 65_535, publicUrl: 'http://localhost:65535' }],
  ['COFFER_PUBLIC_URL', 'https://coffer.example.com', { publicUrl: 'https://coffer.example.com' }],
  ['COFFER_PUBLIC_URL', 'https://Coffer.Example.com:443/', { publicUrl: 'https://coffer.example.com' }],
  ['COFFER_PUBLIC_URL', 'http://[::1]:8080', { publicUrl: 'http://[::1]:8080' }],
  ['COFFER_PLAIN_HTTP', 'on', { plainHttp: true }],
  ['COFFER_DATA_DIR', '/var/lib/coffer', { dataDir: '/var/lib/coffer' }],
  ['COFFER_DATA_DIR', '/srv/c', { masterKey: { kind: 'file', path: '/srv/c/master.key' } }],
  [
    'COFFER_DATABASE_URL',
    'postgres://u:p@h:5432/d?sslmode=require',
    { databaseUrl: 'postgres://u:p@h:5432/d?sslmode=require' },
  ],
  ['COFFER_DATABASE_URL', 'postgresql://h/d', { databaseUrl: 'postgresql://h/d' }],
  ['COFFER_MASTER_KEY', 'q'.repeat(44), { masterKey: { kind: 'value', value: 'q'.repeat(44) } }],
  ['COFFER_MASTER_KEY_FILE', '/run/key', { masterKey: { kind: 'file', path: '/run/key' } }],
  ['COFFER_MASTER_KEY_COMMAND', 'pass coffer', { masterKey: { kind: 'command', command: 'pass coffer' } }],
  ['COFFER_MASTER_KEY_SHARES', 'on', { masterKey: { kind: 'shares' } }],
  ['COFFER_MASTER_KEY_SHARES', 'off', {}],
  [
    'COFFER_MASTER_KEY_GOOGLE_KMS',
    'projects/example.com:p/locations/global/keyRings/r/cryptoKeys/k',
    {
      masterKey: {
        kind: 'google-kms',
        keyName: 'projects/example.com:p/locations/global/keyRings/r/cryptoKeys/k',
        account: undefined,
      },
    },
  ],
  [
    'COFFER_MASTER_KEY_AZURE_KEY_VAULT',
    'https://example.vault.azure.net/keys/coffer/0123abcd',
    {
      masterKey: {
        kind: 'azure-key-vault',
        vault: 'https://example.vault.azure.net',
        key: 'coffer',
        version: '0123abcd',
        application: undefined,
      },
    },
  ],
  ['COFFER_RATE_LIMIT', '0', { rateLimit: 0 }],
  ['COFFER_AUDIT_DAYS', '90', { auditDays: 90 }],
  ['COFFER_DRAIN_SECONDS', '12', { drainSeconds: 12 }],
  ['COFFER_DATABASE_URL', 'postgres://u:p@localhost/d', { drainSeconds: 5 }],
  ['COFFER_RATE_LIMIT', '999999999', { rateLimit: 999_999_999 }],
  ['COFFER_EXCHANGE_RATE_LIMIT', '0', { exchangeRateLimit: 0 }],
  ['COFFER_EXCHANGE_RATE_LIMIT', '25', { exchangeRateLimit: 25 }],
  ['COFFER_SHARE_RATE_LIMIT', '0', { shareRateLimit: 0 }],
  ['COFFER_OUTBOUND_WORKSPACES', 'main, acme', { outboundWorkspaces: new Set(['main', 'acme']) }],
  ['COFFER_OUTBOUND_WORKSPACES', '*', { outboundWorkspaces: 'all' }],
  ['COFFER_TOKEN_PREFIX', 'acme42', { tokenPrefix: 'acme42' }],
  ['COFFER_TOKEN_PREFIX', 'ab', { tokenPrefix: 'ab' }],
  ['COFFER_SHARE_RATE_LIMIT', '5', { shareRateLimit: 5 }],
  ['COFFER_TRUSTED_PROXIES', '10.0.0.0/8', { trustedProxies: [range('10.0.0.0/8')] }],
  [
    'COFFER_TRUSTED_PROXIES',
    '127.0.0.1, ::1\n2001:db8::/32',
    { trustedProxies: [range('127.0.0.1'), range('::1'), range('2001:db8::/32')] },
  ],
  ['COFFER_REDIS_URL', 'redis://:secret@h:6379/1', { redisUrl: 'redis://:secret@h:6379/1' }],
  ['COFFER_REDIS_URL', 'rediss://h', { redisUrl: 'rediss://h' }],
  ['COFFER_SYNC', 'off', { sync: false }],
  ['COFFER_SIGNUP', 'open', { signup: 'open' }],
  [
    'COFFER_BACKUP_TO',
    '/mnt/b',
    { backup: { ...backupDefaults, to: { kind: 'folder', path: '/mnt/b' }, name: '/mnt/b' } },
  ],
  ['COFFER_BACKUP_EVERY', '12h', { backup: { ...backupDefaults, everyMs: 43_200_000 } }],
  ['COFFER_BACKUP_KEEP', '3 daily', { backup: { ...backupDefaults, keep: { daily: 3, weekly: 0, monthly: 0 } } }],
  ['COFFER_SETUP_CODE', 'letmein', { setupCode: 'letmein' }],
  ['COFFER_SMTP_URL', 'smtps://user:word@mail.example.com', { smtpUrl: 'smtps://user:word@mail.example.com' }],
  ['COFFER_SMTP_URL', 'smtp://u%40h:w%2Frd@[::1]:2525/', { smtpUrl: 'smtp://u%40h:w%2Frd@[::1]:2525/' }],
  ['COFFER_MAIL_FROM', 'coffer@example.com', { mailFrom: 'coffer@example.com' }],
  ['COFFER_OUTBOUND_ALLOW', '10.1.0.0/16', { outboundAllow: { hosts: new Set(), ranges: [range('10.1.0.0/16')] } }],
  ['COFFER_OUTBOUND_ALLOW', 'vault.internal', { outboundAllow: { hosts: new Set(['vault.internal']), ranges: [] } }],
  ['COFFER_METRICS_TOKEN', 'scrape', { metricsToken: 'scrape' }],
  ['COFFER_METRICS_PORT', '9090', { metricsPort: 9_090 }],
  ['COFFER_LOG_LEVEL', 'silent', { logLevel: 'silent' }],
]

test.each(accepted)('%s accepts %s', (name, value, expected) => {
  expect(readConfig({ [name]: value })).toMatchObject(expected)
})

const refused: [string, readonly string[]][] = [
  ['COFFER_PORT', ['-1', '65536', '80.5', '1e3', '0x50', 'http', '8080a', '99999999999999999999', '8 0']],
  [
    'COFFER_PUBLIC_URL',
    [
      'coffer.example.com',
      'ftp://coffer.example.com',
      'https://coffer.example.com/path',
      'https://coffer.example.com/?a=b',
      'https://coffer.example.com/#a',
      'https://user:hunter2@coffer.example.com',
      'https://:hunter2@coffer.example.com',
      'javascript:alert(1)',
      'https://',
    ],
  ],
  [
    'COFFER_DATABASE_URL',
    ['mysql://u:hunter2@h/d', 'u:hunter2@h/d', 'hunter2', 'http://hunter2', 'postgres', 'postgres:hunter2'],
  ],
  ['COFFER_REDIS_URL', ['http://:hunter2@h', 'h:6379', 'hunter2', 'redis', 'redis:hunter2', 'unix:///hunter2']],
  ['COFFER_DRAIN_SECONDS', ['-1', '1.5', '301', 'soon']],
  ['COFFER_AUDIT_DAYS', ['0', '-1', '1.5', 'forever', '36501']],
  ['COFFER_RATE_LIMIT', ['-1', '1.5', 'many', '1e3', '1000000000', '0x10', '１２']],
  ['COFFER_EXCHANGE_RATE_LIMIT', ['-1', '1.5', 'many', '1e3', '1000000000']],
  ['COFFER_OUTBOUND_WORKSPACES', ['Main', 'main,*', 'a_b', 'main;acme']],
  ['COFFER_TOKEN_PREFIX', ['a', 'abcdefghijklm', 'Acme', 'ac_me', 'ac-me', 'é€']],
  ['COFFER_SHARE_RATE_LIMIT', ['-1', '1.5', 'many', '1e3', '1000000000']],
  ['COFFER_TRUSTED_PROXIES', ['localhost', '10.0.0.1/8', '10.0.0.0/33', '10.0.0', '*', '10.0.0.0/8;::1', '::/129']],
  ['COFFER_PLAIN_HTTP', ['yes', 'ON', '1', 'true']],
  ['COFFER_TLS_CERT_FILE', ['/etc/coffer/tls.crt']],
  ['COFFER_TLS_KEY_FILE', ['/etc/coffer/tls.key']],
  ['COFFER_SYNC', ['yes', 'OFF', '1', 'true']],
  ['COFFER_SIGNUP', ['yes', 'OPEN', 'invite,open', 'closed']],
  [
    'COFFER_SMTP_URL',
    [
      'mail.example.com',
      'https://mail.example.com',
      'smtp://',
      'smtp://user:hunter2@mail.example.com/path',
      'smtp://user:hunter2@mail.example.com?secure=false',
      'smtp://user:hunter2@mail.example.com#a',
      'smtp://user:hunter2%zz@mail.example.com',
      'smtp:hunter2',
    ],
  ],
  ['COFFER_MAIL_FROM', ['nobody', 'Coffer <coffer@example.com>']],
  [
    'COFFER_OUTBOUND_ALLOW',
    [
      '10.0.0.1/8',
      'http://vault.internal',
      'a b*c',
      '10.0.0.0/99',
      'vault.internal/8',
      'vault.internal:8200',
      'a?b',
      'a@b',
    ],
  ],
  ['COFFER_HOST', ['[::1]', '0.0.0.0:80', '256.1.1.1', '*', 'http://localhost', 'a b']],
  ['COFFER_METRICS_PORT', ['0', '-1', '65536', 'nine', '8080']],
  ['COFFER_LOG_LEVEL', ['verbose', 'INFO', 'trace', '30']],
  ['COFFER_MASTER_KEY_KMS', ['1234-5678', 'alias/coffer', 'arn:aws:s3:::hunter2']],
  [
    'COFFER_MASTER_KEY_GOOGLE_KMS',
    ['coffer', 'projects/hunter2', `${'projects/p/locations/l/keyRings/r'}/cryptoKeys/`],
  ],
  [
    'COFFER_MASTER_KEY_AZURE_KEY_VAULT',
    [
      'vault',
      'https://example.vault.azure.net/',
      'https://example.vault.azure.net/secrets/coffer',
      'https://example.vault.azure.net/keys/coffer?hunter2',
      'https://user:hunter2@example.vault.azure.net/keys/coffer',
    ],
  ],
  [
    'COFFER_MASTER_KEY_TRANSIT',
    [
      'vault',
      'https://vault.example.com',
      'https://vault.example.com/v1/transit/coffer',
      'https://vault.example.com/v1/keys/coffer',
      'ftp://vault.example.com/v1/transit/keys/coffer',
      'https://user:hunter2@vault.example.com/v1/transit/keys/',
    ],
  ],
]

test.each(refused.flatMap(([name, values]) => values.map((value): [string, string] => [name, value])))(
  '%s rejects %s in one sentence',
  (name, value) => {
    const message = expectRefusal({ [name]: value, VAULT_TOKEN: 'hvs.hunter2' }, name)
    expect(message).not.toContain('hunter2')
  },
)

test('an invalid listen address and a port used twice are named in the error', () => {
  expect(refusalOf({ COFFER_HOST: '[::1]' })).toBe(
    'COFFER_HOST: [::1] is not a host name, nor an IP address without brackets and port.',
  )
  expect(refusalOf({ COFFER_PORT: '9000', COFFER_METRICS_PORT: '9000' })).toBe(
    'COFFER_METRICS_PORT must not be the same as COFFER_PORT, 9000.',
  )
})

test('the error for a number that is too large, or a range with host bits, says what to write instead', () => {
  expect(refusalOf({ COFFER_RATE_LIMIT: '9999999999' })).toBe(
    'COFFER_RATE_LIMIT must be a whole number up to 999999999; 0 switches the limit off.',
  )
  expect(refusalOf({ COFFER_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.1/8' })).toBe(
    'COFFER_TRUSTED_PROXIES: 10.0.0.1/8 has host bits set: write 10.0.0.0/8.',
  )
})

test.each([
  ['COFFER_DATABASE_URL', 'postgres://coffer:hunter2/@db.example.com/coffer'],
  ['COFFER_DATABASE_URL', 'postgres://coffer:hunter2@db.example.com:99999/coffer'],
  ['COFFER_REDIS_URL', 'redis://:hunter2#@redis.example.com'],
  ['COFFER_SMTP_URL', 'smtp://user:hunter2?@mail.example.com'],
])('a malformed URL with the right scheme gets a hint: %s %s', (name, value) => {
  expect(refusalOf({ [name]: value })).toBe(
    `${name} is not a valid URL: check its host and port, and percent-encode special characters in its password.`,
  )
})

test('a Redis URL whose password or database the driver cannot parse is rejected in one sentence', () => {
  const sentence = 'COFFER_REDIS_URL must be of the form redis://:password@host:port/number, percent-encoded.'
  for (const url of [
    'redis://:hunter2%@redis.example.com',
    'redis://hunter%zz:2@redis.example.com',
    'redis://h/hunter',
  ]) {
    expect(refusalOf({ COFFER_REDIS_URL: url }), url).toBe(sentence)
  }
  for (const url of ['redis://h', 'redis://h/', 'rediss://:hunter%25@h:6380/2', 'redis://[::1]:6379?family=6']) {
    expect(readConfig({ COFFER_REDIS_URL: url }).redisUrl).toBe(url)
  }
})

test('a port that the system chooses needs a public URL where others may reach it', () => {
  expectRefusal({ COFFER_HOST: '0.0.0.0', COFFER_PORT: '0' }, 'COFFER_PUBLIC_URL')
  const publicUrl = 'https://coffer.example.com'
  expect(readConfig({ COFFER_HOST: '0.0.0.0', COFFER_PORT: '0', COFFER_PUBLIC_URL: publicUrl })).toMatchObject({
    publicUrl,
  })
  expect(readConfig({ COFFER_PORT: '0' })).toMatchObject({ port: 0 })
})

test('every setting has a name, a default and a meaning, each once', () => {
  const names = settings.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const setting of settings) {
    expect(setting.name).toMatch(/^COFFER_[A-Z_]+$/)
    expect(setting.default).toMatch(/\S/)
    expect(setting.meaning).toMatch(/\S/)
  }
})

test('every setting is covered by these tests', () => {
  const wrapped = [
    'COFFER_CONFIG',
    'COFFER_TLS_CERT_FILE',
    'COFFER_TLS_KEY_FILE',
    'COFFER_MASTER_KEY_KMS',
    'COFFER_MASTER_KEY_TRANSIT',
  ]
  const tested = new Set([...accepted.map(([name]) => name), ...wrapped])
  expect(settings.map(({ name }) => name).filter((name) => !tested.has(name))).toEqual([])
})

test.each(['COFFER_PROT', 'COFFER_', 'COFFER_RATELIMIT', 'COFFER_MASTER_KEYS', 'COFFER___PROTO__'])(
  'the unknown setting %s is rejected, even when it is empty',
  (name) => {
    for (const value of ['hunter2', '']) {
      const message = expectRefusal({ [name]: value }, name)
      expect(message).not.toContain('hunter2')
    }
  },
)

test.each([
  ['127.0.0.1', true],
  ['127.255.255.254', true],
  ['::1', true],
  ['localhost', true],
  ['::ffff:127.0.0.1', true],
  ['0.0.0.0', false],
  ['::', false],
  ['10.0.0.1', false],
  ['coffer.example.com', false],
  ['127.0.0.1.example.com', false],
  ['', false],
])('%s is a loopback host: %s', (host, expected) => {
  expect(isLoopback(host)).toBe(expected)
})

test('with open sign-up, only named workspaces may use the allow list of private addresses', () => {
  expect(readConfig({ COFFER_SIGNUP: 'open' }).outboundWorkspaces).toEqual(new Set())
  expect(readConfig({ COFFER_SIGNUP: 'open', COFFER_OUTBOUND_WORKSPACES: '*' }).outboundWorkspaces).toBe('all')
})

test('with a certificate the service is found by https', () => {
  const files = { COFFER_TLS_CERT_FILE: 'tls.crt', COFFER_TLS_KEY_FILE: '/etc/coffer/tls.key' }
  expect(readConfig(files)).toMatchObject({
    publicUrl: 'https://localhost:8080',
    tls: { certificateFile: resolve('tls.crt'), keyFile: '/etc/coffer/tls.key' },
  })
  expect(readConfig({ ...files, COFFER_PUBLIC_URL: 'https://coffer.example.com' }).publicUrl).toBe(
    'https://coffer.example.com',
  )
})
