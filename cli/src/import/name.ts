/**
 * Turns the paths of other tools into names of secrets. Folders that all secrets share are left out. A name that is valid
 * stays as it is; any other one becomes upper case letters, digits and `_`.
 */
import { cannotImport, type Found } from './entry.ts'

const maxValueBytes = 64 * 1024

export type NamedSecret = { readonly key: string; readonly value: string; readonly note?: string }

export type Named = {
  readonly secrets: readonly NamedSecret[]
  /** Such as `db/password → DB_PASSWORD`. */
  readonly renamed: readonly string[]
}

/** Throws if a name cannot be used, or if two secrets would get the same name. */
export function nameSecrets({ secrets }: Found, { keepsFolders = false } = {}): Named {
  const shared = keepsFolders ? 0 : sharedFolders(secrets.map(({ path }) => path))
  const named = secrets.map(({ path, value, note }) => {
    const source = path.slice(shared).join('/')
    return { source, key: nameOf(source), value, ...(note && { note: note.replaceAll('\0', '').slice(0, 4_096) }) }
  })
  refuse(
    named.filter(({ key }) => !isName(key)),
    'These names cannot be turned into names of secrets (1-255 letters, digits, _ and -)',
  )
  const bySource = Map.groupBy(named, ({ key }) => key)
  const clashes = [...bySource].flatMap(([key, sources]) =>
    sources.length > 1 ? [`${sources.map(({ source }) => source).join(' and ')} → ${key}`] : [],
  )
  if (clashes.length > 0) throw cannotImport('Several secrets would get the same name', clashes)
  refuse(
    named.filter(({ value }) => Buffer.byteLength(value) > maxValueBytes),
    'These values are larger than 64 KiB',
  )
  refuse(
    named.filter(({ value }) => !value.isWellFormed()),
    'These values are not valid Unicode',
  )
  return {
    secrets: named
      .map(({ source: _, value, ...secret }) => ({ ...secret, value: escapeReferences(value) }))
      .sort((a, b) => (a.key < b.key ? -1 : 1)),
    renamed: named.flatMap(({ source, key }) => (source === key ? [] : [`${source} → ${key}`])),
  }
}

function refuse(named: readonly { readonly source: string }[], problem: string): void {
  if (named.length > 0)
    throw cannotImport(
      problem,
      named.map(({ source }) => source || '(no name)'),
    )
}

const isName = (text: string): boolean => /^[A-Za-z0-9_-]{1,255}$/.test(text)

function nameOf(source: string): string {
  if (isName(source)) return source
  // Accents are dropped; letters of other scripts are not: two names could become one.
  const letters = source.normalize('NFKD').replace(/\p{M}/gu, '')
  if (/[^\P{L}A-Za-z]|[^\P{N}0-9]/u.test(letters)) return ''
  return letters
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .toUpperCase()
}

/** How many leading folders all paths have in common. */
function sharedFolders(paths: readonly (readonly string[])[]): number {
  const [first = []] = paths
  let count = 0
  while (paths.every((path) => count < path.length - 1 && path[count] === first[count])) count++
  return count
}

/** Other tools have resolved their references; what looks like one of ours is text. */
const escapeReferences = (value: string): string => value.replaceAll('${', () => '$${')
