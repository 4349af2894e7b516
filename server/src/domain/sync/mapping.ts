/**
 * Maps the secrets of an environment to names and values at a target. Pure functions: equal secrets give the same
 * result byte for byte, so that unchanged values are never pushed again.
 */
import { spellResolved } from '@coffer/contract/secret-format'
import type { Field, Limits, Problem, Provider, Values } from '../../providers/provider.ts'
import { matchesPattern } from '../pattern.ts'

/** The values that the target should hold, by their names there. */
type Desired = ReadonlyMap<string, string>
export type Mapped = {
  readonly desired: Desired
  readonly problems: readonly Problem[]
  /** The keys that each entry at the target is made of. */
  readonly sources: ReadonlyMap<string, readonly string[]>
}

/** Limited, because every run tests every pattern against every key. */
const maxPatterns = 200
const maxPatternLength = 256

function checkPatterns(value: string): string | undefined {
  const all = patterns(value)
  if (all.length > maxPatterns) return `has ${all.length} patterns; ${maxPatterns} are allowed.`
  const isLong = all.some(({ length }) => length > maxPatternLength)
  return isLong ? `has a pattern of more than ${maxPatternLength} characters.` : undefined
}

const checkAffix = (value: string) => (value.length > 128 ? 'is longer than 128 characters.' : undefined)

const option = (value: string, label: string) => ({ value, label })

/** The fields of the mapping step, except for the environment. */
export const mappingFields = (provider: Provider): readonly Field[] => [
  {
    kind: 'select',
    id: 'mode',
    label: 'Form',
    defaultValue: provider.capabilities.defaultMode,
    options: [
      option('per-key', 'One entry for each secret'),
      option('json', 'All in one entry, as a JSON object'),
      option('dotenv', 'All in one entry, as a dotenv file'),
    ],
  },
  {
    kind: 'text',
    id: 'objectName',
    label: 'Name of the entry',
    isOptional: ({ mode }) => mode === 'per-key',
    description: 'Only used if all secrets go into one entry.',
    check: (value) => (value.length > 512 ? 'is longer than 512 characters.' : undefined),
  },
  {
    kind: 'text',
    id: 'include',
    label: 'Only these keys',
    isOptional: true,
    placeholder: 'APP_*, DATABASE_URL',
    description: 'Patterns separated by commas; * matches any text. Empty: all keys.',
    check: checkPatterns,
  },
  {
    kind: 'text',
    id: 'exclude',
    label: 'Except these keys',
    isOptional: true,
    placeholder: '*_LOCAL',
    check: checkPatterns,
  },
  {
    kind: 'text',
    id: 'rename',
    label: 'Renamed keys',
    isOptional: true,
    placeholder: 'DB_URL=DATABASE_URL',
    description: 'KEY=NAME pairs separated by commas. These names are used unchanged.',
    check: (value) => (readRenames(value) ? undefined : 'must be a list of KEY=NAME pairs.'),
  },
  {
    kind: 'text',
    id: 'stripPrefix',
    label: 'Remove this prefix',
    isOptional: true,
    placeholder: 'APP_',
    check: checkAffix,
  },
  {
    kind: 'select',
    id: 'transform',
    label: 'Spelling',
    defaultValue: 'none',
    options: [
      option('none', 'Unchanged'),
      option('upper', 'UPPER CASE'),
      option('lower', 'lower case'),
      option('lower-kebab', 'lower-kebab-case'),
      option('upper-camel', 'UpperCamelCase'),
      option('tf-var', 'TF_VAR_lower_case'),
    ],
  },
  { kind: 'text', id: 'prefix', label: 'Add this prefix', isOptional: true, check: checkAffix },
  { kind: 'text', id: 'suffix', label: 'Add this suffix', isOptional: true, check: checkAffix },
  {
    kind: 'select',
    id: 'onExisting',
    label: 'If a name already exists at the target',
    defaultValue: 'fail',
    description: 'The sync never changes entries that it did not create, unless you allow takeover here.',
    options: [
      option('fail', 'Report it and change nothing'),
      option('adopt', 'Take it over: overwrite its value'),
      option('skip', 'Skip it'),
    ],
  },
  {
    kind: 'select',
    id: 'onEmpty',
    label: 'If a value is empty',
    defaultValue: provider.limits.allowsEmpty ? 'push' : 'error',
    options: [option('push', 'Push it'), option('skip', 'Skip it'), option('error', 'Report it')],
  },
  {
    kind: 'select',
    id: 'onInvalidName',
    label: 'If the target does not allow a name',
    defaultValue: 'error',
    options: [option('error', 'Report it'), option('skip', 'Skip it')],
  },
  {
    kind: 'select',
    id: 'drift',
    label: 'If someone changes a value at the target',
    defaultValue: 'report',
    options: [option('report', 'Report it'), option('repair', 'Overwrite it')],
  },
]

export function mapSecrets(
  provider: Provider,
  mapping: Values,
  options: Values,
  secrets: ReadonlyMap<string, string>,
  target: Values = {},
): Mapped {
  const isChosen = chooser(mapping)
  const chosen = [...secrets].filter(([key]) => isChosen(key)).sort(([a], [b]) => (a < b ? -1 : 1))
  if (mapping.mode === 'json' || mapping.mode === 'dotenv') return mapToOne(provider, mapping, options, chosen)
  const rename = readRenames(mapping.rename ?? '') ?? new Map()
  const problems: Problem[] = []
  const desired = new Map<string, string>()
  const sources = new Map<string, readonly string[]>()
  const takenBy = new Map<string, string>()
  for (const [key, value] of chosen) {
    const name = provider.normaliseName(rename.get(key) ?? nameFor(key, mapping))
    const problem = problemOf(provider.limits, mapping, options, name, value)
    if (problem === 'skip') continue
    const folded = provider.limits.foldsCase ? name.toLowerCase() : name
    const other = takenBy.get(folded)
    if (problem !== undefined) problems.push({ name: key, problem })
    else if (other !== undefined)
      problems.push({ name: key, problem: `becomes ${name} at the target, as ${other} does.` })
    else {
      takenBy.set(folded, key)
      desired.set(name, value)
      sources.set(name, [key])
    }
  }
  return { desired, sources, problems: [...problems, ...problemsOfAll(provider.limits, target, desired)] }
}

/** Puts all secrets into one entry. Without secrets there is no entry. */
function mapToOne(provider: Provider, mapping: Values, options: Values, all: readonly [string, string][]): Mapped {
  // The target's rule on empty values applies to the entry, not to the secrets in it.
  const chosen = all.filter(([, value]) => value !== '' || mapping.onEmpty !== 'skip')
  if (chosen.length === 0) return withProblems()
  const name = provider.normaliseName(mapping.objectName ?? '')
  if (name === '') return withProblems({ name: 'objectName', problem: 'is required.' })
  const rename = readRenames(mapping.rename ?? '') ?? new Map()
  const entries = chosen.map(([key, value]) => ({ key: rename.get(key) ?? nameFor(key, mapping), value }))
  const seen = new Set<string>()
  const twice = entries.find(({ key }) => seen.size === seen.add(key).size)
  if (twice) return withProblems({ name: twice.key, problem: 'is the name of two secrets.' })
  const value = mapping.mode === 'json' ? toJson(entries) : toDotenv(entries, name)
  if (typeof value !== 'string') return withProblems(value)
  const problem = problemOf(provider.limits, { ...mapping, onInvalidName: 'error' }, options, name, value)
  if (problem !== undefined) return withProblems({ name, problem })
  const desired = new Map([[name, value]])
  const sources = new Map([[name, chosen.map(([key]) => key)]])
  return { desired, sources, problems: problemsOfAll(provider.limits, {}, desired) }
}

const withProblems = (...problems: Problem[]): Mapped => ({ desired: new Map(), sources: new Map(), problems })

/** Sorted and without spaces, so that equal secrets give equal text. */
function toJson(entries: readonly { key: string; value: string }[]): string {
  const sorted = [...entries].sort((a, b) => (a.key < b.key ? -1 : 1))
  return `{${sorted.map(({ key, value }) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(',')}}`
}

/** Returns a problem if a key cannot be written to a dotenv file: a space or line break would be misread. */
function toDotenv(entries: readonly { key: string; value: string }[], name: string): string | Problem {
  const wrong = entries.find(({ key }) => !/^[\w.-]+$/.test(key))
  if (!wrong) return entries.map(({ key, value }) => `${key}=${spellResolved(value)}\n`).join('')
  const key = JSON.stringify(wrong.key)
  return {
    name,
    problem: `contains the key ${key}; a dotenv key has only letters, digits, underscores, dots and dashes.`,
  }
}

function patterns(text = ''): string[] {
  return text.split(/[\s,]+/).filter((part) => part !== '')
}

/** Whether a key is pushed, by the include and exclude patterns. */
export function chooser({ include, exclude }: Values): (key: string) => boolean {
  const [wanted, unwanted] = [patterns(include), patterns(exclude)]
  return (key) => {
    const isIncluded = wanted.length === 0 || wanted.some((pattern) => matchesPattern(pattern, key))
    return isIncluded && !unwanted.some((pattern) => matchesPattern(pattern, key))
  }
}

/** Undefined if the text is not a list of pairs. */
function readRenames(text: string): Map<string, string> | undefined {
  const renames = new Map<string, string>()
  for (const pair of text.split(',').map((part) => part.trim())) {
    if (pair === '') continue
    const [key = '', name = '', ...rest] = pair.split('=').map((part) => part.trim())
    if (key === '' || name === '' || rest.length > 0 || renames.has(key)) return undefined
    renames.set(key, name)
  }
  return renames
}

function nameFor(key: string, { stripPrefix = '', transform = 'none', prefix = '', suffix = '' }: Values): string {
  const stripped = stripPrefix !== '' && key.startsWith(stripPrefix) ? key.slice(stripPrefix.length) : key
  return `${prefix}${spell(stripped, transform)}${suffix}`
}

function spell(name: string, transform: string): string {
  if (transform === 'upper') return name.toUpperCase()
  if (transform === 'lower') return name.toLowerCase()
  if (transform === 'lower-kebab') return name.toLowerCase().replaceAll('_', '-')
  if (transform === 'tf-var') return `TF_VAR_${name.toLowerCase()}`
  if (transform !== 'upper-camel') return name
  const words = name.toLowerCase().split(/[_.-]+/)
  return words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('')
}

/** Returns `skip` if the person chose to leave such entries out. */
function problemOf(limits: Limits, mapping: Values, options: Values, name: string, value: string): string | undefined {
  const isTooLong = limits.nameMax !== undefined && name.length > limits.nameMax
  if (isTooLong || !limits.name.test(name)) {
    if (mapping.onInvalidName === 'skip') return 'skip'
    const most = limits.nameMax === undefined ? '' : `, ${limits.nameMax} characters at most`
    return `becomes ${JSON.stringify(name)}, which the target does not allow: it takes ${limits.nameHint}${most}.`
  }
  if (value === '' && mapping.onEmpty === 'skip') return 'skip'
  if (value === '' && mapping.onEmpty === 'error') return 'is empty.'
  if (value === '' && !limits.allowsEmpty) return 'is empty, which the target does not allow.'
  const bytes = Buffer.byteLength(value)
  if (bytes > limits.valueMaxBytes) return `has ${bytes} bytes; the target takes ${limits.valueMaxBytes} at most.`
  return limits.refuseValue?.(value, options)
}

function problemsOfAll({ maxItems, totalMaxBytes }: Limits, target: Values, desired: Desired): Problem[] {
  const problems: Problem[] = []
  const most = typeof maxItems === 'function' ? maxItems(target) : maxItems
  if (most !== undefined && desired.size > most) {
    problems.push({ name: '*', problem: `are ${desired.size} entries; the target takes ${most} at most.` })
  }
  if (totalMaxBytes === undefined) return problems
  let bytes = 0
  for (const [name, value] of desired) bytes += Buffer.byteLength(name) + Buffer.byteLength(value)
  if (bytes > totalMaxBytes) {
    problems.push({ name: '*', problem: `are ${bytes} bytes in all; the target takes ${totalMaxBytes} at most.` })
  }
  return problems
}
