/**
 * `npm run docs`: writes docs/provider/, one page for each sync target, from what its provider declares. A test fails
 * when a page is not what this makes of it: change the provider, or the words here, and run it.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CopyField, Field, Guard, Provider, Values } from '../server/src/providers/provider.ts'
import { announced, providers } from '../server/src/providers/registry.ts'
import { judges } from '../test/vendor/judge.ts'

export const pagesFolder = join(import.meta.dirname, 'provider')

const origin = '<!-- Written by docs/provider-pages.ts from what the provider declares: change it there. -->'

/** All pages, by the name of their file. */
export function providerPages(): Map<string, string> {
  const pages = providers.map((provider): [string, string] => [`${provider.slug}.md`, pageOf(provider)])
  return new Map([['README.md', indexPage()], ...pages])
}

function indexPage(): string {
  const rows = providers.map((provider) => {
    const { read, ownerMark, deploysOnPush } = provider.capabilities
    const cells = [`[${provider.name}](${provider.slug}.md)`, `\`${provider.slug}\``, readInShort[read]]
    return row(...cells, ownerMark ?? 'no', deploysOnPush ? 'yes' : 'no')
  })
  const coming = announced.map(({ name, slug }) => `${name} (\`${slug}\`)`)
  return joined([
    '# Where secrets can be pushed',
    origin,
    'What a sync is and what it promises: [sync.md](../sync.md). Each page says what to create at the vendor, lists the fields of the wizard, and names the limits.',
    table(['Target', 'Slug', 'Seen of what is there', 'Mark of the owner', 'A push deploys'], rows),
    `Announced, and refused with 409 until they are built: ${coming.join(', ')}.`,
  ])
}

function pageOf(provider: Provider): string {
  const { name, slug, website, docs, notes, auth, target, options } = provider
  return joined([
    `# ${name}`,
    origin,
    `Slug \`${slug}\`. [Website](${website}), [the API that is used](${docs}). What all syncs have in common: [sync.md](../sync.md).`,
    list(notes),
    '## What to create first',
    ...copies(auth),
    '## Fields',
    ...fieldTable('In the step `auth`:', auth),
    ...fieldTable('In the step `target`:', target),
    ...fieldTable('In the step `mapping`, beside [those of every sync](../sync.md#mapping):', options),
    ...copies(options),
    '## Limits',
    table(['', ''], limitRows(provider)),
    '## What is seen of the target',
    seen(provider),
    '## How it was tested',
    `Never against the vendor itself, only against a fake of it. ${sentence(judges[slug] ?? '')}`,
  ])
}

/** Policies, commands and scopes to take along, as the wizard shows them. */
function copies(form: readonly Field[]): string[] {
  return form.filter(isCopy).flatMap((field) => {
    const text = field.text({ syncId: 'SYNC_ID', values: defaultsOf(form), takesOver: false })
    const about = [field.description, conditionOf(form, field)].filter((part) => part !== undefined)
    const stands = text.includes('SYNC_ID') ? ['The wizard shows it with the id of the sync in place of SYNC_ID.'] : []
    return [
      `### ${field.label}`,
      ...[[...about.map(sentence), ...stands].join(' ')].filter((part) => part !== ''),
      `\`\`\`${field.language}\n${text}\n\`\`\``,
    ]
  })
}

const isCopy = (field: Field): field is CopyField => field.kind === 'copy'

const defaultsOf = (form: readonly Field[]): Values =>
  Object.fromEntries(
    form.flatMap((field) =>
      isCopy(field) || field.defaultValue === undefined ? [] : [[field.id, field.defaultValue]],
    ),
  )

function fieldTable(title: string, form: readonly Field[]): string[] {
  const rows = form.flatMap((field) =>
    isCopy(field) ? [] : [row(`\`${field.id}\``, field.label, aboutOf(form, field))],
  )
  return rows.length === 0 ? [] : [title, table(['Field', 'Label', 'Answer'], rows)]
}

function aboutOf(form: readonly Field[], field: Exclude<Field, CopyField>): string {
  const { kind, description, placeholder, defaultValue, isOptional } = field
  const parts = [
    description,
    ...(kind === 'password' ? ['sealed, never shown again'] : []),
    ...(kind === 'select' ? [choicesOf(field.options)] : []),
    ...(defaultValue === undefined ? [] : [`\`${defaultValue}\` by default`]),
    ...(isOptional && defaultValue === undefined ? ['may be empty'] : []),
    ...(placeholder !== undefined && kind !== 'select' ? [`such as \`${placeholder}\``] : []),
    conditionOf(form, field),
  ]
  return parts
    .filter((part) => part !== undefined)
    .map(sentence)
    .join(' ')
}

type Choices = Extract<Field, { kind: 'select' }>['options']

const choicesOf = (choices: Choices): string =>
  typeof choices === 'function'
    ? 'from the list that the wizard shows; typed where the credential may not list'
    : choices.map(({ label, value }) => `\`${value}\`: ${label}`).join('; ')

/** In which of the earlier choices a field is asked, found by trying them all. */
function conditionOf(form: readonly Field[], field: Field): string | undefined {
  const { when, after = [] } = field
  if (!when) return undefined
  const fitting = combinations(form.slice(0, form.indexOf(field))).filter((values) => when(values))
  if (fitting.length === 0) return `only for some answers to \`${after.at(-1)}\``
  const conditions = form.flatMap((other) => {
    if (other.kind !== 'select' || typeof other.options === 'function') return []
    const fit = other.options.filter(({ value }) => fitting.some((values) => values[other.id] === value))
    if (fit.length === 0 || fit.length === other.options.length) return []
    return [`\`${other.id}\` is ${fit.map(({ value }) => `\`${value}\``).join(' or ')}`]
  })
  return `only where ${conditions.join(' and ')}`
}

function combinations(form: readonly Field[]): Values[] {
  let all: Values[] = [defaultsOf(form)]
  for (const field of form) {
    if (field.kind !== 'select' || typeof field.options === 'function') continue
    const { id, options } = field
    all = all.flatMap((values) => options.map(({ value }) => ({ ...values, [id]: value })))
  }
  return all
}

function limitRows({ limits, capabilities, normaliseName }: Provider): string[] {
  const { nameHint, nameMax, foldsCase, valueMaxBytes, allowsEmpty, refuseValue, totalMaxBytes, maxItems, rate } =
    limits
  const example = ['DATABASE_URL', 'database_url'].find((name) => normaliseName(name) !== name)
  const names = [
    nameHint,
    ...(nameMax === undefined ? [] : [`${count(nameMax)} characters at most`]),
    ...(foldsCase ? ['names that differ only by case are the same'] : []),
    ...(example === undefined ? [] : [`\`${example}\` becomes \`${normaliseName(example)}\``]),
  ]
  const values = [
    `${bytes(valueMaxBytes)} at most`,
    allowsEmpty ? 'may be empty' : 'not empty',
    ...(refuseValue ? ['some are refused before they are sent: the plan says which, and why'] : []),
  ]
  const { bulk, defaultMode } = capabilities
  return [
    row('Names', sentence(names.join('; '))),
    row('Values', sentence(values.join('; '))),
    ...(totalMaxBytes === undefined ? [] : [row('All names and values together', sentence(bytes(totalMaxBytes)))]),
    // Where it depends on the target, the notes say how.
    ...(typeof maxItems === 'number' ? [row('Entries', sentence(`${count(maxItems)} at most`))] : []),
    row('Form, by default', defaultMode === 'json' ? 'All in one entry, as JSON.' : 'One entry for each secret.'),
    row(
      'Calls',
      sentence(`${pace(rate.perSecond)} in a run, ${runs(rate.concurrency)} with one credential, ${keys(bulk)}`),
    ),
  ]
}

const count = (number: number) => number.toLocaleString('en')
const bytes = (size: number) =>
  size % 1024 ** 2 === 0 ? `${size / 1024 ** 2} MiB` : size % 1024 === 0 ? `${size / 1024} KiB` : `${count(size)} bytes`
const pace = (perSecond: number) =>
  Number.isInteger(perSecond) ? `about ${perSecond} a second` : `about ${perSecond * 60} a minute`
const runs = (concurrency: number) => (concurrency === 1 ? 'one run at a time' : `${concurrency} runs at a time`)
const keys = (bulk: number) => (bulk === 1 ? 'one key after the other' : `up to ${count(bulk)} keys at once`)

type Read = Provider['capabilities']['read']

const readInShort: Record<Read, string> = {
  value: 'names and values',
  mark: 'names and whether a value changed',
  names: 'names',
  nothing: 'nothing',
}
const readAtLength: Record<Read, string> = {
  value: 'The list shows values: one that somebody else has changed or removed is noticed.',
  mark: 'The list shows no values, but something that changes with them (a version, a time, a digest): one that somebody else has changed or removed is noticed.',
  names:
    'The list shows names only: one that somebody else has removed is noticed, a changed value is not, unless said otherwise above.',
  nothing:
    'There is no list: what others do there is not noticed, and what was there before the first push is not known.',
}

const guardAtLength: Record<Guard, string> = {
  mark: 'Before an update, Coffer looks at the entry: one that no longer bears the mark was put there by somebody else, and is a conflict.',
  version:
    'Before an update, Coffer looks at the entry: one that is no longer as Coffer left it is reported and not overwritten, unless the sync repairs drift, may take over what is there, or is run by hand.',
  id: 'Before an update, Coffer looks at the entry: one with another id was made by somebody else, and is reported and not overwritten, unless the sync repairs drift, may take over what is there, or is run by hand. A value that was changed in place is overwritten.',
  precondition:
    'An update names the id of the entry: one that somebody else has deleted and made again is a conflict. A value that was changed in place is overwritten.',
  none: 'The vendor shows nothing that would tell our entry from another one of the same name: an update overwrites what somebody else has put in its place.',
}

function guarded(guard: Provider['capabilities']['guard']): string {
  return typeof guard === 'function'
    ? 'What an update does to a changed entry depends on the target: see above.'
    : guardAtLength[guard]
}

function seen({ capabilities: { read, ownerMark, guard, deploysOnPush } }: Provider): string {
  const marked = `What a sync makes bears its mark (${ownerMark}): what bears no mark, or another one, is left alone, even under a name of ours, unless the sync may take over what is there.`
  const unmarked =
    'There is no place for a mark of the owner: only the ledger says what is ours. What somebody else makes under the same name in the moment between the look and the push may be overwritten, unless said otherwise above.'
  const slow =
    'A push deploys or restarts something, so changes are gathered: 15 seconds after the last one, 2 minutes after the first at the latest.'
  const quick = 'Changes are pushed 3 seconds after the last one, 30 seconds after the first at the latest.'
  const owner = ownerMark === undefined ? (read === 'nothing' ? [] : [unmarked]) : [marked]
  return [readAtLength[read], ...owner, guarded(guard), deploysOnPush ? slow : quick].join(' ')
}

const joined = (blocks: readonly string[]) => `${blocks.join('\n\n')}\n`
const list = (items: readonly string[]) => items.map((item) => `- ${item}`).join('\n')
const row = (...cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
const table = (heads: readonly string[], rows: readonly string[]) =>
  [row(...heads), `|${heads.map(() => '---|').join('')}`, ...rows].join('\n')

/** With a capital and a full stop; what begins with code stays as it is. */
function sentence(text: string): string {
  const ended = /[.:!?]$/.test(text) ? text : `${text}.`
  return /^[a-z]+[ ,]/.test(ended) ? ended.charAt(0).toUpperCase() + ended.slice(1) : ended
}

if (import.meta.main) {
  const pages = providerPages()
  mkdirSync(pagesFolder, { recursive: true })
  for (const name of readdirSync(pagesFolder)) if (!pages.has(name)) rmSync(join(pagesFolder, name))
  for (const [name, text] of pages) writeFileSync(join(pagesFolder, name), text)
}
