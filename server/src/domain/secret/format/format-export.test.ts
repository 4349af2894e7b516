// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
/** Export formats: the program that reads a format gets every value byte for byte. */
import { spawnSync } from 'node:child_process'
import type { Entry } from '@coffer/contract/secret-format'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { hostileText, hostileValues } from '../../../../../test/hostile-text.ts'
import { times } from '../../../../../test/tier.ts'
import type { WriteOptions } from './entry.ts'
import { type ExportFormat, formatLines } from './format.ts'

const importFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
const exportFormats = [...importFormats, 'shell', 'docker', 'k8s', 'tfvars'] as const
const options = { name: 'Checkout API / production', isResolved: false }
const canary = 'c4n4ry'

function someEntries(key: RegExp) {
  const entry = fc.record({ key: fc.stringMatching(key), value: hostileText })
  return fc.uniqueArray(entry, { selector: ({ key }) => key, maxLength: 8 })
}

const anyKey = /^[A-Za-z0-9_-]{1,12}$/
const variableName = /^X_[A-Za-z0-9_]{0,8}$/

function entriesOf(values: readonly string[]) {
  return values.map((value, index) => ({ key: `KEY_${index}`, value }))
}

function formatEntries(format: ExportFormat, entries: readonly Entry[], options: WriteOptions) {
  const { lines, contentType } = formatLines(format, entries, options)
  return { text: [...lines].join(''), contentType }
}

function textOf(format: ExportFormat, entries: { key: string; value: string }[]): string {
  return formatEntries(format, entries, options).text
}

/** The message of the failure, after a check that the caller can fix it. */
function problemOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ name: 'Failure', code: 'invalid' })
    return error instanceof Error ? error.message : ''
  }
  throw new Error('nothing was refused')
}

describe('shell', () => {
  const holdable = hostileValues.filter((value) => !value.includes('\0'))
  const shells = ['sh', 'bash', 'dash', 'busybox'].filter((shell) => spawnSync(shell, ['-c', ':']).status === 0)

  const printed = (keys: string[]) => `printf '%s\\0' ${keys.map((key) => `"$${key}"`).join(' ')}`

  function run(shell: string, script: string, args: string[], input = ''): string[] {
    const { stdout, stderr } = spawnSync(shell, ['-c', script, shell, ...args], { input, maxBuffer: 64 * 1024 * 1024 })
    expect(stderr.toString()).toBe('')
    return stdout.toString().split('\0').slice(0, -1)
  }

  /** The shell variables after the shell has evaluated the text. */
  const evaluated = (shell: string, text: string, keys: string[]): string[] =>
    run(shell, `eval "$(cat)"; ${printed(keys)}`, [], text)

  /** The same for many texts in one process, since a start takes longest. Each has a subshell, with variables of its own. */
  function evaluatedEach(shell: string, texts: { text: string; keys: string[] }[]): string[] {
    const scripts = texts.map(({ keys }, at) => `(eval "\${${at + 1}}"; ${printed(keys)})`)
    return run(
      shell,
      scripts.join('\n'),
      texts.map(({ text }) => text),
    )
  }

  test.each(shells)('%s reads every hostile value byte for byte', (shell) => {
    const entries = entriesOf(holdable)
    const keys = entries.map(({ key }) => key)
    expect(evaluated(shell, textOf('shell', entries), keys)).toEqual(holdable)
  })

  const holdableEntries = someEntries(variableName).filter(
    (entries) => entries.length > 0 && entries.every(({ value }) => !value.includes('\0')),
  )

  test.each(shells)('%s reads any text', (shell) => {
    fc.assert(
      fc.property(fc.array(holdableEntries, { minLength: 1, maxLength: times(1, 40) }), (sets) => {
        const texts = sets.map((entries) => ({ text: textOf('shell', entries), keys: entries.map(({ key }) => key) }))
        expect(evaluatedEach(shell, texts)).toEqual(sets.flat().map(({ value }) => value))
      }),
      // Half of the longest array on average: as many texts as 500 processes would read one by one.
      { numRuns: times(15, 25) },
    )
  })

  test('exports the variables to child processes', () => {
    const { stdout } = spawnSync('sh', ['-c', 'eval "$(cat)"; sh -c \'printf %s "$A"\''], {
      input: textOf('shell', [{ key: 'A', value: "it's" }]),
    })
    expect(stdout.toString()).toBe("it's")
  })
})

/** Parses like `docker run --env-file`: https://github.com/docker/cli/blob/master/opts/file.go */
function readAsDocker(text: string): { key: string; value: string }[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => ({ key: line.slice(0, line.indexOf('=')), value: line.slice(line.indexOf('=') + 1) }))
}

/** Parses like HCL a quoted template without interpolation; a bare `${` or `%{` would be interpolation, and throws. */
function readAsHcl(line: string): { key: string; value: string } {
  const [, key = '', quoted = ''] = /^([\p{ID_Start}_][\p{ID_Continue}-]*) = "(.*)"$/u.exec(line) ?? []
  const value = quoted.replace(
    /\\u([\da-f]{4})|\\([nrt"\\])|([$%])\3\{|[$%]\{|["\\\r\n]/g,
    (token, hex: string | undefined, letter: string | undefined, mark: string | undefined) => {
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
      if (letter !== undefined) return { n: '\n', r: '\r', t: '\t' }[letter] ?? letter
      if (mark !== undefined) return `${mark}{`
      throw new Error(`a bare ${JSON.stringify(token)} in an HCL string`)
    },
  )
  return { key, value }
}

describe('docker', () => {
  test('keeps any text of one line', () => {
    fc.assert(
      fc.property(someEntries(anyKey), (entries) => {
        fc.pre(entries.every(({ value }) => !/[\0\r\n]/.test(value)))
        expect(readAsDocker(textOf('docker', entries))).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('keeps spaces and quotes without escaping', () => {
    expect(textOf('docker', [{ key: 'A', value: ' "b" # $X ' }])).toBe('A= "b" # $X \n')
  })
})

describe('tfvars', () => {
  test('keeps any text that Terraform does not normalise', () => {
    fc.assert(
      fc.property(someEntries(/^[A-Za-z_][A-Za-z0-9_-]{0,8}$/), (drawn) => {
        const entries = drawn.map(({ key, value }) => ({ key, value: value.normalize('NFC') }))
        expect(textOf('tfvars', entries).split('\n').slice(0, -1).map(readAsHcl)).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test.each([
    ['${X}', '"$${X}"'],
    ['%{X}', '"%%{X}"'],
    // HCL reads $$${ as a literal $$ followed by the start of a template.
    ['$${X}', '"\\u0024$${X}"'],
    ['$%{X}', '"\\u0024%%{X}"'],
    ['$X % $$', '"$X % $$"'],
    ['a"b\\\n\r\t\0\u007f', '"a\\"b\\\\\\n\\r\\t\\u0000\\u007f"'],
  ])('writes %j as %s', (value, quoted) => {
    expect(textOf('tfvars', [{ key: 'a', value }])).toBe(`a = ${quoted}\n`)
  })
})

describe('k8s', () => {
  test('is a Secret with every byte of the values', () => {
    const entries = entriesOf(hostileValues)
    const manifest = parseYaml(textOf('k8s', entries), { version: '1.1' })
    expect(manifest).toEqual({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'checkout-api-production' },
      type: 'Opaque',
      data: Object.fromEntries(entries.map(({ key, value }) => [key, Buffer.from(value).toString('base64')])),
    })
  })

  test('keeps keys and values as text, and may be empty', () => {
    const entries = ['NO', '10', 'null', '-'].map((key) => ({ key, value: '' }))
    expect(parseYaml(textOf('k8s', entries), { version: '1.1' }).data).toEqual({ NO: '', 10: '', null: '', '-': '' })
    expect(parseYaml(textOf('k8s', [])).data).toEqual({})
  })

  test.each([
    ['Zürich  Straße!', 'zurich-stra-e'],
    ['--a..b--', 'a-b'],
    ['123', '123'],
    ['漢字', 'secrets'],
    ['', 'secrets'],
    [`${'a'.repeat(62)} b`, 'a'.repeat(62)],
  ])('turns the name %j into %s', (name, label) => {
    expect(parseYaml(formatEntries('k8s', [], { ...options, name }).text).metadata).toEqual({ name: label })
  })
})

describe('a format that cannot hold an entry names the entry', () => {
  test.each<[ExportFormat, string, string, string]>([
    ['shell', 'A', `${canary}\0`, 'shell cannot hold the value of A: it contains a NUL character'],
    [
      'shell',
      'A-B',
      canary,
      'shell cannot hold the key A-B: a variable is named with letters, digits and _, and does not begin with a digit',
    ],
    [
      'shell',
      '1A',
      canary,
      'shell cannot hold the key 1A: a variable is named with letters, digits and _, and does not begin with a digit',
    ],
    ['docker', 'A', `${canary}\0`, 'docker cannot hold the value of A: it contains a NUL character'],
    ['docker', 'A', `${canary}\n`, 'docker cannot hold the value of A: it contains a line break'],
    ['docker', 'A', `${canary}\r`, 'docker cannot hold the value of A: it contains a line break'],
    [
      'k8s',
      'A'.repeat(254),
      canary,
      `k8s cannot hold the key ${'A'.repeat(254)}: a key of a Secret has 253 characters at most`,
    ],
    ['tfvars', '1A', canary, 'tfvars cannot hold the key 1A: an identifier does not begin with a digit or a hyphen'],
    ['tfvars', '-A', canary, 'tfvars cannot hold the key -A: an identifier does not begin with a digit or a hyphen'],
    [
      'tfvars',
      'A',
      `${canary}e\u0301`,
      'tfvars cannot hold the value of A: it contains characters that Terraform would compose into others (Unicode NFC)',
    ],
    [
      'tfvars',
      'A',
      `${canary}${'\u0323\u0301'.repeat(64)}`,
      'tfvars cannot hold the value of A: it contains 128 combining marks in a row',
    ],
  ])('%s: %s', (format, key, value, problem) => {
    const message = problemOf(() =>
      formatEntries(
        format,
        [
          { key: 'OK', value: '' },
          { key, value },
        ],
        options,
      ),
    )
    expect(message).toBe(`format: ${problem}`)
    expect(message).not.toContain(canary)
  })
})

test('each format has its content type', () => {
  const types = exportFormats.map((format) => [format, formatEntries(format, [], options).contentType])
  expect(Object.fromEntries(types)).toEqual({
    dotenv: 'text/plain; charset=utf-8',
    shell: 'text/plain; charset=utf-8',
    docker: 'text/plain; charset=utf-8',
    tfvars: 'text/plain; charset=utf-8',
    json: 'application/json; charset=utf-8',
    yaml: 'application/yaml; charset=utf-8',
    k8s: 'application/yaml; charset=utf-8',
    csv: 'text/csv; charset=utf-8',
  })
})
