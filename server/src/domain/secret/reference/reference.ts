/**
 * The grammar of references in secret values: `${KEY}`, `${environment.KEY}`, `${project.environment.KEY}`, and `$${`
 * for a literal `${`. Anything else is ordinary text: values are often files or shell lines with their own syntax.
 */
export type Reference = { readonly project?: string; readonly environment?: string; readonly key: string }

// The body excludes `$`, so no text is scanned by two attempts to match, and scanning stays linear.
const escapeOrBody = /\$\$\{|\$\{([A-Za-z0-9 _.-]{1,353})\}/g
const projectSlug = /^[a-z0-9-]{2,48}$/
const environmentName = /^[A-Za-z0-9][A-Za-z0-9 _-]{0,47}$/
const secretKey = /^[A-Za-z0-9_-]{1,255}$/

/**
 * Splits a text into literals and references. `read` parses the text between `${` and `}`, and returns undefined if it
 * is ordinary text. Escapes become `${`. Adjacent literals are joined, so a text without references is one piece.
 */
export function parsePieces<Known>(text: string, read: (name: string) => Known | undefined): (string | Known)[] {
  if (!text.includes('${')) return [text]
  const pieces: (string | Known)[] = []
  // Joined once at the end: V8 keeps a string that grows by many small additions as a tree of all of them.
  let literals: string[] = []
  let end = 0
  for (const match of text.matchAll(escapeOrBody)) {
    const name = match[1]
    const known = name === undefined ? undefined : read(name)
    if (name !== undefined && known === undefined) continue
    if (match.index > end) literals.push(text.slice(end, match.index))
    end = match.index + match[0].length
    if (known === undefined) {
      literals.push('${')
      continue
    }
    if (literals.length > 0) pieces.push(literals.join(''))
    pieces.push(known)
    literals = []
  }
  if (end < text.length) literals.push(text.slice(end))
  if (literals.length > 0) pieces.push(literals.join(''))
  return pieces
}

/**
 * Distinct references of a text, and the number of all references and escapes. Stops at `maxReferences` distinct ones.
 */
export function surveyReferences(
  text: string,
  maxReferences = Number.POSITIVE_INFINITY,
): { readonly references: readonly Reference[]; readonly count: number } {
  if (!text.includes('${')) return { references: [], count: 0 }
  const known = new Map<string, Reference>()
  let count = 0
  for (const [, name] of text.matchAll(escapeOrBody)) {
    count += 1
    if (name === undefined || known.has(name)) continue
    const reference = readReference(name)
    if (reference) known.set(name, reference)
    if (known.size === maxReferences) break
  }
  return { references: [...known.values()], count }
}

/** False for most values: they need no check of references. */
export const mayRefer = ({ value }: { readonly value: string | null }): boolean => value?.includes('${') ?? false

/** Whether resolution could change the text: it holds at least one reference or escape. */
export function hasReferences(text: string): boolean {
  if (!text.includes('${')) return false
  return text.matchAll(escapeOrBody).some(([, body]) => body === undefined || readReference(body) !== undefined)
}

/** Text whose resolution gives the given one, which may look like a reference. */
export function writeLiteral(text: string): string {
  return hasReferences(text) ? text.replaceAll('${', () => '$${') : text
}

/** The text between `${` and `}`, under which an unresolved reference is reported. */
export function writeReferenceName({ project, environment, key }: Reference): string {
  if (environment === undefined) return key
  return project === undefined ? `${environment}.${key}` : `${project}.${environment}.${key}`
}

/** Parses the text between `${` and `}`; undefined if it does not fit the grammar. */
export function readReference(body: string): Reference | undefined {
  const keyStart = body.lastIndexOf('.') + 1
  const key = body.slice(keyStart)
  if (!secretKey.test(key)) return undefined
  if (keyStart === 0) return { key }
  // Names contain no dots. With two dots, the first part is the project; a third dot fails in the environment name.
  const environmentStart = body.slice(0, keyStart - 1).indexOf('.') + 1
  const environment = body.slice(environmentStart, keyStart - 1)
  if (!environmentName.test(environment)) return undefined
  if (environmentStart === 0) return { environment, key }
  const project = body.slice(0, environmentStart - 1)
  return projectSlug.test(project) ? { project, environment, key } : undefined
}
