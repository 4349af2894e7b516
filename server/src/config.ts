/**
 * Reads and validates every setting. An invalid one stops the start with a one-sentence error. `setting.ts` lists them.
 */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { type AddressRange, parseAddress, parseRange, rangeProblem } from './address-range.ts'
import { type BackupSettings, readBackupSettings, readS3Settings, type S3Settings } from './backup-setting.ts'
import { ConfigError, type ReadOr, readAll } from './config-error.ts'
import { type LogLevel, logLevels } from './log.ts'
import type { MasterKeySource } from './master-key/master-key.ts'
import { readMasterKeySource } from './master-key/read-source.ts'
import { type AllowList, parseAllowList } from './outbound-allow.ts'
import { clientVariables, settings } from './setting.ts'
import { readSettingsFile } from './setting-file.ts'
import { closestSetting } from './setting-hint.ts'

export type Config = {
  readonly host: string
  readonly port: number
  readonly publicUrl: string
  /** Undefined if the service speaks plain HTTP. */
  readonly tls: TlsFiles | undefined
  /** Whether plain HTTP is allowed on any address. */
  readonly plainHttp: boolean
  readonly dataDir: string
  readonly databaseUrl: string | undefined
  readonly masterKey: MasterKeySource
  readonly rateLimit: number
  readonly exchangeRateLimit: number
  readonly shareRateLimit: number
  /** Prefix of new API tokens. */
  readonly tokenPrefix: string
  readonly trustedProxies: readonly AddressRange[]
  readonly redisUrl: string | undefined
  readonly signup: 'invite' | 'open'
  /** Whether this node pushes secrets to the targets of syncs. */
  readonly sync: boolean
  /** Undefined unless the operator chose one. */
  readonly setupCode: string | undefined
  /** Archived audit entries are removed after this many days; undefined keeps them. */
  readonly auditDays: number | undefined
  /** How long a node goes on serving after it was told to stop. */
  readonly drainSeconds: number
  readonly backup: BackupSettings
  readonly s3: S3Settings
  readonly outboundAllow: AllowList
  /** Slugs or ids of the workspaces that may use `outboundAllow`. */
  readonly outboundWorkspaces: 'all' | ReadonlySet<string>
  readonly smtpUrl: string | undefined
  readonly mailFrom: string | undefined
  readonly metricsPort: number | undefined
  readonly metricsToken: string | undefined
  readonly logLevel: LogLevel
}

/** Both in PEM format. */
export type TlsFiles = { readonly certificateFile: string; readonly keyFile: string }

type Environment = Record<string, string | undefined>

export function readConfig(environment: Environment): Config {
  const env = withSettingsFile(environment)
  const text = (name: string): string | undefined => env[name]?.trim() || undefined
  return readAll((or) => {
    or(undefined, () => refuseUnknown(env))
    return readSettings(text, or)
  })
}

function readSettings(text: (name: string) => string | undefined, or: ReadOr): Config {
  const word = <const Word extends string>(name: string, fallback: NoInfer<Word>, list: readonly Word[]): Word =>
    or<Word>(fallback, () => readWord(name, text(name) ?? fallback, list))
  const count = (name: string, fallback: string) => or(0, () => readCount(name, text(name) ?? fallback))
  const host = or('127.0.0.1', () => readHost(text('COFFER_HOST') ?? '127.0.0.1'))
  const port = or(8080, () => readPort('COFFER_PORT', text('COFFER_PORT') ?? '8080', 0))
  const dataDir = resolve(text('COFFER_DATA_DIR') ?? './data')
  const signup = word('COFFER_SIGNUP', 'invite', ['invite', 'open'])
  const tls = or(undefined, () => readTls(text('COFFER_TLS_CERT_FILE'), text('COFFER_TLS_KEY_FILE')))
  const databaseUrl = or(undefined, () =>
    readUrl('COFFER_DATABASE_URL', text('COFFER_DATABASE_URL'), ['postgres:', 'postgresql:']),
  )
  return {
    host,
    port,
    publicUrl: or('', () => readPublicUrl(text('COFFER_PUBLIC_URL') ?? ownUrl(host, port, tls))),
    tls,
    plainHttp: word('COFFER_PLAIN_HTTP', 'off', ['on', 'off']) === 'on',
    dataDir,
    databaseUrl,
    masterKey: or<MasterKeySource>({ kind: 'shares' }, () => readMasterKeySource(text, dataDir)),
    rateLimit: count('COFFER_RATE_LIMIT', '200'),
    exchangeRateLimit: count('COFFER_EXCHANGE_RATE_LIMIT', '10'),
    shareRateLimit: count('COFFER_SHARE_RATE_LIMIT', '60'),
    tokenPrefix: or('', () => readTokenPrefix(text('COFFER_TOKEN_PREFIX') ?? 'cof')),
    trustedProxies: or([], () => readRanges('COFFER_TRUSTED_PROXIES', text('COFFER_TRUSTED_PROXIES') ?? '')),
    redisUrl: or(undefined, () => readRedisUrl(text('COFFER_REDIS_URL'))),
    sync: word('COFFER_SYNC', 'on', ['on', 'off']) === 'on',
    signup,
    setupCode: text('COFFER_SETUP_CODE'),
    auditDays: or(undefined, () => readDays('COFFER_AUDIT_DAYS', text('COFFER_AUDIT_DAYS'))),
    drainSeconds: or(0, () => readDrain(text('COFFER_DRAIN_SECONDS') ?? (databaseUrl === undefined ? '0' : '5'))),
    backup: readBackupSettings(text, dataDir, or),
    s3: readS3Settings(text),
    outboundAllow: or<AllowList>({ hosts: new Set(), ranges: [] }, () =>
      readAllowList(text('COFFER_OUTBOUND_ALLOW') ?? ''),
    ),
    outboundWorkspaces: or<Config['outboundWorkspaces']>('all', () =>
      readWorkspaces(text('COFFER_OUTBOUND_WORKSPACES') ?? (signup === 'open' ? '' : '*')),
    ),
    smtpUrl: or(undefined, () => readSmtpUrl(text('COFFER_SMTP_URL'))),
    mailFrom: or(undefined, () => readMailFrom(text('COFFER_MAIL_FROM'))),
    metricsPort: or(undefined, () => readMetricsPort(text('COFFER_METRICS_PORT'), port)),
    metricsToken: text('COFFER_METRICS_TOKEN'),
    logLevel: word('COFFER_LOG_LEVEL', 'info', logLevels),
  }
}

export function isLoopback(host: string): boolean {
  const address = parseAddress(host)
  if (!address) return host === 'localhost'
  return address.family === 6 ? address.bits === 1n : address.bits >> 24n === 127n
}

/** The environment, and below it the file that COFFER_CONFIG names. */
export function withSettingsFile(environment: Environment): Environment {
  const path = environment.COFFER_CONFIG?.trim()
  if (!path) return environment
  const file = readSettingsFile(path)
  if (typeof file === 'string') throw new ConfigError(`COFFER_CONFIG: ${file}`)
  return { ...file, ...environment }
}

/** A mistyped setting that is silently ignored is worse than one that stops the start. */
function refuseUnknown(env: Environment): void {
  const known = new Set(settings.map(({ name }) => name))
  const isUnknown = (name: string) => name.startsWith('COFFER_') && !known.has(name) && !clientVariables.has(name)
  const unknown = Object.keys(env).filter(isUnknown)
  if (unknown.length === 0) return
  const problems = unknown.map((name) => {
    const close = closestSetting(name)
    const meant = close ? ` (did you mean ${close}?)` : ''
    return `${name} is not a known setting${meant}: see --help for the list.`
  })
  throw new ConfigError(...problems)
}

/** Checks only the syntax; listening shows whether the host exists and is this machine. */
function readHost(value: string): string {
  const isName = /^[a-z\d_]([a-z\d._-]*[a-z\d_])?$/i.test(value) && !/(^|\.)\d+$/.test(value)
  if (isIP(value) === 0 && !isName) {
    throw new ConfigError(`COFFER_HOST: ${value} is not a host name, nor an IP address without brackets and port.`)
  }
  return value
}

function readTls(certificateFile: string | undefined, keyFile: string | undefined): TlsFiles | undefined {
  if (certificateFile !== undefined && keyFile !== undefined) {
    return { certificateFile: resolve(certificateFile), keyFile: resolve(keyFile) }
  }
  if (certificateFile === undefined && keyFile === undefined) return undefined
  const [given, missing] =
    keyFile === undefined
      ? ['COFFER_TLS_CERT_FILE', 'COFFER_TLS_KEY_FILE']
      : ['COFFER_TLS_KEY_FILE', 'COFFER_TLS_CERT_FILE']
  throw new ConfigError(`${given} needs ${missing} too: a certificate and its private key.`)
}

function readMetricsPort(value: string | undefined, servicePort: number): number | undefined {
  if (value === undefined) return undefined
  const port = readPort('COFFER_METRICS_PORT', value, 1)
  if (port === servicePort) throw new ConfigError(`COFFER_METRICS_PORT must not be the same as COFFER_PORT, ${port}.`)
  return port
}

function readPort(name: string, value: string, min: number): number {
  const port = Number(value)
  if (!/^\d+$/.test(value) || port < min || port > 65_535) {
    throw new ConfigError(`${name} must be a port number from ${min} to 65535.`)
  }
  return port
}

const maxCount = 999_999_999

function readCount(name: string, value: string): number {
  if (!/^\d+$/.test(value) || Number(value) > maxCount) {
    throw new ConfigError(`${name} must be a whole number up to ${maxCount}; 0 switches the limit off.`)
  }
  return Number(value)
}

function readWorkspaces(value: string): Config['outboundWorkspaces'] {
  if (value === '*') return 'all'
  const names = value.split(/[\s,]+/).filter((name) => name !== '')
  const wrong = names.find((name) => !/^[a-z0-9-]{1,64}$/.test(name))
  if (wrong !== undefined) {
    throw new ConfigError(
      `COFFER_OUTBOUND_WORKSPACES: "${wrong}" is not the slug or id of a workspace; "*" alone means all of them.`,
    )
  }
  return new Set(names)
}

function readTokenPrefix(value: string): string {
  if (!/^[a-z0-9]{2,12}$/.test(value)) {
    throw new ConfigError('COFFER_TOKEN_PREFIX must be 2 to 12 lower-case letters and digits, such as cof.')
  }
  return value
}

const maxDays = 36_500

function readDays(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const days = Number(value)
  if (!/^\d+$/.test(value) || days < 1 || days > maxDays) {
    throw new ConfigError(`${name} must be a whole number of days from 1 to ${maxDays}.`)
  }
  return days
}

const maxDrainSeconds = 300

function readDrain(value: string): number {
  if (!/^\d+$/.test(value) || Number(value) > maxDrainSeconds) {
    throw new ConfigError(`COFFER_DRAIN_SECONDS must be a whole number of seconds up to ${maxDrainSeconds}.`)
  }
  return Number(value)
}

function readWord<const Word extends string>(name: string, value: string, list: readonly Word[]): Word {
  const word = list.find((candidate) => candidate === value)
  if (word === undefined) throw new ConfigError(`${name} must be one of: ${list.join(', ')}.`)
  return word
}

function readUrl(name: string, value: string | undefined, protocols: readonly string[]): string | undefined {
  if (value === undefined) return undefined
  // The value may hold a password, so it is not quoted in the message.
  if (!protocols.some((protocol) => value.startsWith(`${protocol}//`))) {
    throw new ConfigError(`${name} must be a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}.`)
  }
  if (!URL.canParse(value)) {
    throw new ConfigError(
      `${name} is not a valid URL: check its host and port, and percent-encode special characters in its password.`,
    )
  }
  return value
}

function ownUrl(host: string, port: number, tls: TlsFiles | undefined): string {
  // The port is not known yet, so links sent to other people would lead nowhere.
  if (port === 0 && !isLoopback(host)) {
    throw new ConfigError('COFFER_PUBLIC_URL is required when COFFER_PORT is 0 and COFFER_HOST is not loopback.')
  }
  return `${tls ? 'https' : 'http'}://localhost:${port}`
}

function readPublicUrl(value: string): string {
  const url = URL.parse(value)
  const isPlain = url && ['http:', 'https:'].includes(url.protocol) && url.pathname === '/' && !url.search && !url.hash
  if (!url || !isPlain || url.username || url.password) {
    throw new ConfigError(
      'COFFER_PUBLIC_URL must be an http or https address without a path, such as https://coffer.example.com.',
    )
  }
  return url.origin
}

function readRedisUrl(value: string | undefined): string | undefined {
  const url = URL.parse(readUrl('COFFER_REDIS_URL', value, ['redis:', 'rediss:']) ?? '')
  if (!url) return undefined
  if (!/^\/?\d*$/.test(url.pathname) || !isDecodable(url)) {
    throw new ConfigError('COFFER_REDIS_URL must be of the form redis://:password@host:port/number, percent-encoded.')
  }
  return value
}

function readSmtpUrl(value: string | undefined): string | undefined {
  const url = URL.parse(readUrl('COFFER_SMTP_URL', value, ['smtp:', 'smtps:']) ?? '')
  if (!url) return undefined
  if (!url.hostname || !['', '/'].includes(url.pathname) || url.search || url.hash || !isDecodable(url)) {
    throw new ConfigError('COFFER_SMTP_URL must be of the form smtp://user:password@host:port, percent-encoded.')
  }
  return value
}

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

function readMailFrom(value: string | undefined): string | undefined {
  if (value !== undefined && !/^[^\s@<>]+@[^\s@<>]+$/.test(value)) {
    throw new ConfigError('COFFER_MAIL_FROM must be an email address, such as coffer@example.com.')
  }
  return value
}

function readRanges(name: string, value: string): AddressRange[] {
  return value
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((entry) => {
      const range = parseRange(entry)
      if (range) return range
      throw new ConfigError(`${name}: ${rangeProblem(entry)}`)
    })
}

function readAllowList(value: string): AllowList {
  try {
    return parseAllowList(value)
  } catch (error) {
    throw new ConfigError(`COFFER_OUTBOUND_ALLOW: ${error instanceof Error ? error.message : 'is not valid'}`)
  }
}
