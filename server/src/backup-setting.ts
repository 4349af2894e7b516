/** Reads the settings of backups: where they go, how often, and how many are kept. */
import { resolve, sep } from 'node:path'
import { type AwsCredentials, readAwsCredentials } from './aws-signature.ts'
import { ConfigError, type ReadOr } from './config-error.ts'

/** Where backups go. `prefix` has no slash at its ends, and may be empty. */
export type BackupPlace =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }

/** Numbers of backups to keep: the last of each of so many days, weeks and months. */
export type KeepRule = { readonly daily: number; readonly weekly: number; readonly monthly: number }

export type BackupSettings = {
  /** Undefined if no backups are scheduled. */
  readonly to: BackupPlace | undefined
  /** Of the place, for people: without credentials. Empty if there is none. */
  readonly name: string
  readonly everyMs: number
  readonly keep: KeepRule
}

export type S3Settings = {
  readonly region: string | undefined
  /** A service other than AWS, addressed in path style. */
  readonly endpoint: string | undefined
  readonly credentials: AwsCredentials | undefined
}

/** The message says what the text must be, without a subject. */
export class PlaceError extends Error {}

type ReadText = (name: string) => string | undefined

export function readS3Settings(text: ReadText): S3Settings {
  const [region, endpoint] = [text('AWS_REGION'), text('AWS_ENDPOINT_URL_S3')]
  return { region, endpoint, credentials: readAwsCredentials(text) }
}

export function readBackupSettings(text: ReadText, dataDir: string, or: ReadOr): BackupSettings {
  const given = text('COFFER_BACKUP_TO')
  const to = or(undefined, () => (given === undefined ? undefined : readPlace(given, dataDir, readS3Settings(text))))
  return {
    to,
    name: to === undefined ? '' : placeName(to),
    everyMs: or(0, () => readEvery(text('COFFER_BACKUP_EVERY') ?? '24h')),
    keep: or({ daily: 0, weekly: 0, monthly: 0 }, () =>
      readKeep(text('COFFER_BACKUP_KEEP') ?? '7 daily, 4 weekly, 12 monthly'),
    ),
  }
}

function readPlace(text: string, dataDir: string, s3: S3Settings): BackupPlace {
  const place = parsePlace(text)
  // A backup there is lost together with the data, and the master key often lies there.
  if (place.kind === 'folder' && `${place.path}${sep}`.startsWith(`${dataDir}${sep}`)) {
    throw new ConfigError(
      'COFFER_BACKUP_TO must not lie in the data folder, where it would be lost together with the data: choose another disk.',
    )
  }
  const problem = place.kind === 's3' ? s3Problem(s3) : undefined
  if (problem !== undefined) throw new ConfigError(`COFFER_BACKUP_TO ${problem}`)
  return place
}

function parsePlace(text: string): BackupPlace {
  try {
    return parseBackupPlace(text)
  } catch (error) {
    throw error instanceof PlaceError ? new ConfigError(`COFFER_BACKUP_TO ${error.message}`) : error
  }
}

const placeName = (place: BackupPlace): string =>
  place.kind === 'folder' ? place.path : `s3://${[place.bucket, place.prefix].filter(Boolean).join('/')}`

/** A folder, or `s3://bucket/prefix`. */
export function parseBackupPlace(text: string): BackupPlace {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase()
  if (scheme === undefined) return { kind: 'folder', path: resolve(text) }
  const [, bucket, path = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:\/[\w.-]+)*)\/?$/i.exec(text) ?? []
  const hasDots = path.split('/').some((part) => part === '.' || part === '..')
  if (scheme !== 's3' || bucket === undefined || bucket !== bucket.toLowerCase() || hasDots) {
    throw new PlaceError(
      'must be a folder or s3://bucket/prefix, with letters, digits, dots, dashes and underscores in the prefix.',
    )
  }
  return { kind: 's3', bucket, prefix: path.slice(1) }
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
const minEveryMs = 5 * 60_000
const maxEveryMs = 90 * 86_400_000

function readEvery(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})\s*([mhd])$/.exec(text) ?? []
  const ms = Number(count) * (unitMs[unit] ?? Number.NaN)
  if (!(ms >= minEveryMs && ms <= maxEveryMs)) {
    throw new ConfigError('COFFER_BACKUP_EVERY must be a duration from 5m to 90d, such as 12h or 7d.')
  }
  return ms
}

const maxKept = 1_000

/** "7 daily, 4 weekly, 12 monthly", in any order; a kind that is left out keeps none. */
function readKeep(text: string): KeepRule {
  const rule = { daily: 0, weekly: 0, monthly: 0 }
  const seen = new Set<string>()
  for (const part of text.split(',')) {
    const [, count = '', kind = ''] = /^\s*(\d{1,4}) (daily|weekly|monthly)\s*$/.exec(part) ?? []
    if (!isKind(kind) || seen.has(kind) || Number(count) > maxKept) throw keepProblem()
    seen.add(kind)
    rule[kind] = Number(count)
  }
  if (rule.daily + rule.weekly + rule.monthly === 0) throw keepProblem()
  return rule
}

const isKind = (text: string): text is keyof KeepRule => text === 'daily' || text === 'weekly' || text === 'monthly'

const keepProblem = () =>
  new ConfigError(
    `COFFER_BACKUP_KEEP must be of the form "7 daily, 4 weekly, 12 monthly", with at least one and at most ${maxKept} of each.`,
  )

/** One sentence on what S3 still needs; undefined if nothing. */
export function s3Problem({ region, endpoint, credentials }: S3Settings): string | undefined {
  if (credentials === undefined) return 'needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.'
  if (endpoint !== undefined) {
    const url = URL.parse(endpoint)
    const isPlain = url?.pathname === '/' && !url.search && !url.hash && !url.username && !url.password
    if (!isPlain || !/^https?:$/.test(url.protocol))
      return 'needs a plain https URL without a path in AWS_ENDPOINT_URL_S3.'
  }
  if (region === undefined && endpoint === undefined) return 'needs AWS_REGION.'
  if (region !== undefined && !/^[a-z0-9-]{1,32}$/.test(region))
    return 'needs a region such as "eu-central-1" in AWS_REGION.'
  return undefined
}
