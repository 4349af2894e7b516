/**
 * Decides which entries match a filter, by one rule for both kinds of rows on both engines. SQL only narrows the
 * candidates and may let too many through, never too few.
 */
import type { AuditRow } from './entry.ts'
import type { Details, DetailsReader } from './key-list.ts'

export type AuditFilter = {
  readonly actor: string | null
  readonly action: string | null
  readonly entity: SoughtEntity | null
  readonly project: string | null
  readonly environment: SoughtEnvironment | null
  readonly from: number | null
  readonly to: number | null
  readonly text: string | null
}

/**
 * Matches an id, type or name. A secret sought by id also matches by its names, because bulk reads record only keys.
 */
export type SoughtEntity = { readonly text: string; readonly secret?: SoughtSecret | undefined }
type SoughtSecret = { readonly projectId: string; readonly slug: string; readonly names: readonly string[] }

/** Older entries hold names of environments instead of all their ids; `known` serves to match those. */
export type SoughtEnvironment = { readonly id: string; readonly known?: KnownEnvironment | undefined }
type KnownEnvironment = { readonly projectId: string; readonly slug: string; readonly name: string }

/** Everything in an entry's details that a filter can match. */
type Mentioned = {
  readonly names: ReadonlySet<string>
  readonly ids: ReadonlySet<string>
  readonly environmentIds: readonly string[]
  readonly environmentNames: ReadonlySet<string>
  /** Secrets that were read to resolve references: `project.environment.KEY`. */
  readonly referenced: readonly string[]
  readonly folded: string
}

const maxKnown = 100
const maxKnownLength = 4 * 1024 * 1024

export type EntryFilter = (row: AuditRow) => boolean | Promise<boolean>

/** Returns a predicate for entries. Reads of one response share their details, which are parsed once. */
export function entryFilter(filter: AuditFilter, readDetails: DetailsReader): EntryFilter {
  const { actor, action, entity, project, environment, from, to } = filter
  const text = filter.text === null ? null : fold(filter.text)
  const known = new Map<string, Mentioned>()
  let knownLength = 0
  const mentionedIn = async ({ details }: AuditRow): Promise<Mentioned> => {
    const seen = known.get(details)
    if (seen) return seen
    const read = await readDetails(details)
    const mentioned = readMentioned(read)
    knownLength += read.length
    if (known.size >= maxKnown || knownLength > maxKnownLength) {
      known.clear()
      knownLength = read.length
    }
    known.set(details, mentioned)
    return mentioned
  }
  const isPlain = (row: AuditRow) =>
    (entity === null || isEntity(row, entity.text)) &&
    (environment === null || row.environmentId === environment.id) &&
    (text === null || isNamed(row, text))
  const isSaid = (row: AuditRow, mentioned: Mentioned) =>
    (entity === null || isEntity(row, entity.text) || mentionsEntity(row, mentioned, entity)) &&
    (environment === null ||
      row.environmentId === environment.id ||
      mentionsEnvironment(row, mentioned, environment)) &&
    (text === null || isNamed(row, text) || mentioned.folded.includes(text))
  return (row) =>
    (actor === null || row.actorId === actor || row.actorName === actor) &&
    (action === null || row.action === action) &&
    (project === null || row.projectId === project) &&
    (from === null || row.at >= from) &&
    (to === null || row.at <= to) &&
    (isPlain(row) || mentionedIn(row).then((mentioned) => isSaid(row, mentioned)))
}

function isEntity(row: AuditRow, text: string): boolean {
  return row.entityId === text || row.entityName === text || typesOf(text).includes(row.entityType)
}

/** Bulk operations on secrets are recorded with the type `secrets`. */
export const typesOf = (type: string): string[] => [type, `${type}s`]

function mentionsEntity(row: AuditRow, mentioned: Mentioned, { text, secret }: SoughtEntity): boolean {
  const { names, ids, referenced } = mentioned
  if (names.has(text) || ids.has(text) || referenced.some((place) => place.endsWith(`.${text}`))) return true
  if (!secret) return false
  // Recorded ids are more precise than names, so names count only without ids.
  const isByName = ids.size === 0 && row.entityType !== 'secret' && row.projectId === secret.projectId
  if (isByName && secret.names.some((name) => names.has(name))) return true
  return referenced.some(
    (place) => place.startsWith(`${secret.slug}.`) && secret.names.some((name) => place.endsWith(`.${name}`)),
  )
}

function mentionsEnvironment(row: AuditRow, mentioned: Mentioned, { id, known }: SoughtEnvironment): boolean {
  const { environmentIds, environmentNames, referenced } = mentioned
  if (environmentIds.length > 0 || !known) return environmentIds.includes(id)
  const isByName = row.environmentId === null && row.projectId === known.projectId
  if (isByName && (environmentNames.has(known.name) || environmentNames.has(id))) return true
  return referenced.some((place) => place.startsWith(`${known.slug}.${known.name}.`))
}

const isNamed = (row: AuditRow, text: string) =>
  [row.entityName, row.actorName, row.entityType, row.action].some((field) => fold(field).includes(text))

const fold = (text: string) => text.toLowerCase()

function readMentioned({ before = {}, after = {} }: Details): Mentioned {
  const changes = Array.isArray(after.changes) ? after.changes.map(Object) : []
  const pushed = [after.create, after.update, after.delete].flatMap(textsIn)
  const names = [...textsIn(after.keys), ...changes.flatMap(({ key }) => textsIn(key)), ...pushed]
  const called = [before.name, after.name].flatMap(textsIn)
  const referenced = textsIn(after.referenced)
  // Environments of a read or comparison; a compared one may have a revision after `@`.
  const read = 'keys' in after ? [after.environments, after.from, after.to].flatMap(textsIn) : []
  const environmentNames = [
    ...read.map((state) => state.replace(/@.*/, '')),
    ...changes.flatMap(({ environment }) => textsIn(environment)),
  ]
  return {
    names: new Set([...names, ...called]),
    ids: new Set(changes.flatMap(({ id }) => textsIn(id))),
    environmentIds: textsIn(after.environmentIds),
    environmentNames: new Set(environmentNames),
    referenced,
    // A search text never contains a line break, so a match lies within one name.
    folded: fold([...names, ...called, ...referenced].join('\n')),
  }
}

const textsIn = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'string')

/** Patterns for SQL `like`; null if the filter does not ask for the field. */
export function patternsFor({ entity, environment, text }: AuditFilter) {
  const secret = entity?.secret
  return {
    entityEnd: entity && endPattern(entity.text),
    // One pattern cannot match several names, so with several names every row passes.
    secretEnd: secret ? endPattern(secret.names.length === 1 ? (secret.names[0] ?? '') : '') : null,
    environmentId: environment && `%${escapePattern(environment.id)}%`,
    environmentName: environment?.known ? `%${escapePattern(environment.known.name)}%` : null,
    text: text === null ? null : `%${loosePattern(fold(text))}%`,
  }
}

const escapePattern = (text: string) => text.replace(/[\\%_]/g, '\\$&')

/** Matches text at the end of a JSON string: a key, or a path that ends with the key. */
const endPattern = (text: string) => `%${escapePattern(JSON.stringify(text).slice(1))}%`

/**
 * Engines lower-case non-ASCII letters differently, and also İ and the Kelvin sign, which become i and k: wildcards let
 * all of them through.
 */
const loosePattern = (text: string) =>
  text.replace(/[%_]|[ik]|[^ !#-[\]-~]+/gu, (part) => {
    if (part === '%' || part === '_') return `\\${part}`
    return part === 'i' || part === 'k' ? '_' : '%'
  })
