// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
/** Resolved dotenv files, read by bash, Node, npm's dotenv and Debian's python-dotenv. The fast tier has the first two. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import type { Entry } from '@coffer/contract/secret-format'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requirePrograms } from '../../../../../test/debian-package.ts'
import { hostileText, hostileValues } from '../../../../../test/hostile-text.ts'
import { isDeep, times } from '../../../../../test/tier.ts'
import { loadJudge } from '../../../../../test/vendor/load-judge.ts'
import { formatLines, parseEntries } from './format.ts'

await requirePrograms('bash', ...(isDeep ? ['python-dotenv'] : []))
const npm = await loadJudge<{ parse(text: string): Record<string, string> }>('dotenv')

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'coffer-dotenv-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

type Read = Readonly<Record<string, string | undefined>>
/** What a reader gets of each file under these keys. */
type Reader = (files: readonly string[], keys: readonly string[]) => readonly Read[]

function run(command: string, args: readonly string[]): string {
  const env = { PATH: '/nowhere', LC_ALL: 'C.UTF-8' }
  return spawnSync(command, args, { cwd: folder, env, maxBuffer: 256 * 1024 * 1024 }).stdout.toString()
}

function printed(text: string, files: readonly string[], keys: readonly string[]): readonly Read[] {
  const found = text.split('\0')
  return files.map((_, file) => Object.fromEntries(keys.map((key, at) => [key, found[file * keys.length + at]])))
}

const readers: Readonly<Record<string, Reader>> = {
  bash: (files, keys) => {
    const print = `printf '%s\\0' ${keys.map((key) => `"$${key}"`).join(' ')}`
    return printed(
      run('/bin/bash', ['-c', `for file; do (. "./$file"; ${print}); done`, 'bash', ...files]),
      files,
      keys,
    )
  },
  node: (files) => files.map((file) => parseEnv(readFileSync(join(folder, file), 'utf8'))),
  ...(npm && {
    dotenv: (files) => files.map((file) => npm.parse(readFileSync(join(folder, file), 'utf8'))),
    'python-dotenv': (files) => {
      const script = 'import dotenv, json, sys; print(json.dumps([dotenv.dotenv_values(one) for one in sys.argv[1:]]))'
      return JSON.parse(run('/usr/bin/python3', ['-c', script, ...files]))
    },
  }),
}

const entriesOf = (values: readonly string[]): Entry[] => values.map((value, index) => ({ key: `KEY_${index}`, value }))
const textOf = (entries: readonly Entry[], isResolved = true) =>
  [...formatLines('dotenv', entries, { name: 'test', isResolved }).lines].join('')
const named = (text: string) =>
  new Set([...text.matchAll(/^# bash, .* do not all read the next value alike: (\w+)$/gm)].map(([, key = '']) => key))

/** Names of files with these texts. */
function filesOf(texts: readonly string[]): string[] {
  return texts.map((text, index) => {
    writeFileSync(join(folder, `${index}.env`), text)
    return `${index}.env`
  })
}

const pick = (read: Read | undefined, entries: readonly Entry[]) =>
  Object.fromEntries(entries.map(({ key }) => [key, read?.[key]]))
const asRecord = (entries: readonly Entry[]) => Object.fromEntries(entries.map(({ key, value }) => [key, value]))

describe.each(Object.entries(readers))('%s', (_, read) => {
  /** One file for each list: a value that is misread must not change the others. */
  function check(lists: readonly (readonly string[])[]): void {
    const all = lists.map(entriesOf)
    const texts = all.map((entries) => textOf(entries))
    const keys = entriesOf(lists.reduce((one, other) => (one.length > other.length ? one : other), [])).map(
      ({ key }) => key,
    )
    const found = read(filesOf(texts), keys)
    for (const [index, entries] of all.entries()) {
      const odd = named(texts[index] ?? '')
      const alike = entries.filter(({ key }) => !odd.has(key))
      expect(pick(found[index], alike)).toEqual(asRecord(alike))
    }
  }

  test('reads every hostile value that the file does not name', () => check([hostileValues]))

  test('reads multi-line keys, quotes and dollars', () => {
    const values = [
      '-----BEGIN PRIVATE KEY-----\nMII+/=\n-----END PRIVATE KEY-----\n',
      '{\n  "private_key": "-----BEGIN PRIVATE KEY-----\\nMII=\\n"\n}\n',
      'set -e\necho "$HOME" `id` \\d\n',
      "it's\nmany lines\n",
      'pa$$word"`\\d',
    ]
    expect(named(textOf(entriesOf(values)))).toEqual(new Set())
    check([values])
  })

  test('reads any text that the file does not name', () => {
    fc.assert(
      fc.property(fc.array(fc.array(hostileText, { maxLength: 8 }), { minLength: 1, maxLength: times(10, 40) }), check),
      { numRuns: times(5, 40) },
    )
  })
})

test('node --env-file reads them too', () => {
  const entries = entriesOf(hostileValues.slice(0, -1))
  const text = textOf(entries)
  const alike = entries.filter(({ key }) => !named(text).has(key))
  const [file = ''] = filesOf([text])
  const print = 'process.stdout.write(JSON.stringify(process.env))'
  const found = JSON.parse(run(process.execPath, [`--env-file=${file}`, '-e', print]))
  expect(pick(found, alike)).toEqual(asRecord(alike))
})

const refused = ["it's $5", 'a\\\\b', 'a\\', '${X}', '\'"', "'`", '\r', "it's \\a", "it's $(id)", '\0']

test('names the values for which there is no such spelling, above each of them', () => {
  const text = textOf(entriesOf(["it's", ...refused]))
  expect([...named(text)]).toEqual(refused.map((_, index) => `KEY_${index + 1}`))
  const literals = refused.map((value) => value.replace('${', () => '$${'))
  expect(parseEntries('dotenv', text).map(({ value }) => value)).toEqual(["it's", ...literals])
})

if (isDeep) {
  test('no other spelling of these would be read alike either', () => {
    const escaped = (value: string) => value.replace(/[\\"$`]/g, '\\$&')
    const onOneLine = (value: string) => value.replaceAll('\n', '\\n').replaceAll('\r', '\\r')
    const spellings: ((value: string) => string)[] = [
      (value) => value,
      (value) => `'${value}'`,
      (value) => `'${value.replaceAll("'", "\\'")}'`,
      (value) => `'${value.replaceAll("'", "'\\''")}'`,
      (value) => `\`${value}\``,
      (value) => `"${value}"`,
      (value) => `"${onOneLine(value)}"`,
      (value) => `"${escaped(value)}"`,
      (value) => `"${onOneLine(escaped(value))}"`,
    ]
    const values = [...refused, ...hostileValues.filter((value) => named(textOf([{ key: 'A', value }])).size > 0)]
    const tried = values.flatMap((value) => spellings.map((spell) => ({ value, text: `A=${spell(value)}\nB='\nx'\n` })))
    const files = filesOf(tried.map(({ text }) => text))
    const found = Object.values(readers).map((read) => read(files, ['A', 'B']))
    const alike = tried.filter(({ value }, index) =>
      found.every((reads) => reads[index]?.A === value && reads[index]?.B === '\nx'),
    )
    expect(alike).toEqual([])
  })
}

test.each([true, false])('bash executes nothing (resolved: %s)', (isResolved) => {
  const made = join(folder, 'made')
  const command = `$(: > ${made})`
  const values = [
    command,
    `it's ${command}`,
    `\`: > ${made}\`'`,
    `\${x[${command}]}'`,
    `\${X:-${command}}`,
    `"; : > ${made}; '`,
  ]
  const entries = entriesOf(values)
  const [found] =
    readers.bash?.(
      filesOf([textOf(entries, isResolved)]),
      entries.map(({ key }) => key),
    ) ?? []
  expect(existsSync(made)).toBe(false)
  if (isResolved) expect(found).toEqual(asRecord(entries))
})
