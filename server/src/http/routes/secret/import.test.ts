// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here look like references.
/** An import writes every entry of a file as one revision, and any text that an export wrote; with an error it writes nothing. */
import type { RevisionResults } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test/any-character.ts'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
})

type ImportFormat = 'dotenv' | 'json' | 'yaml' | 'csv'
const importFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
const canary = 'c4n4ry'

const importInto = (format: ImportFormat, content: string, more: Record<string, unknown> = {}) =>
  project.ask<RevisionResults & { message: string }>('POST', '/secret/import', {
    environmentId: 'development',
    format,
    content,
    ...more,
  })
const exportFrom = (format: string, more = '', token?: string, environment = 'development') =>
  project.ask<string>('GET', `/secret/export?environmentId=${environment}&format=${format}${more}`, undefined, token)
const statuses = ({ results }: RevisionResults) => Object.fromEntries(results.map(({ key, status }) => [key, status]))

/** The same three secrets in each format. */
const files: Record<ImportFormat, string> = {
  dotenv: '# a comment\nexport A=one\nB="two\\nlines"\n\nC="${A} # no comment"\n',
  json: '{ "A": "one", "B": "two\\nlines", "C": "${A} # no comment" }',
  yaml: 'A: one\nB: |-\n  two\n  lines\nC: "${A} # no comment"\n',
  csv: 'key,value\r\nA,one\r\nB,"two\nlines"\r\nC,${A} # no comment\r\n',
}
const inFiles: Values = { A: 'one', B: 'two\nlines', C: '${A} # no comment' }

test('single quotes make a dotenv value literal, and an encrypted file is refused with what to do', async () => {
  await importInto('dotenv', 'BOM=x\nLIT=\'${BOM}\'\nREF="${BOM}"\n')
  expect(JSON.parse((await exportFrom('json', '&resolve=true')).text)).toEqual({ BOM: 'x', LIT: '${BOM}', REF: 'x' })
  const encrypted = await importInto('dotenv', `A=1\nHELLO="encrypted:${'B'.repeat(136)}"\n`, { mode: 'upsert' })
  expect(encrypted.status).toBe(400)
  expect(encrypted.body.message).toMatch(/^content: line 2: .*run `dotenvx decrypt`/)
})

describe.each(importFormats)('an import of %s', (format) => {
  test('takes `${` as text if it is literal, and as a reference if not', async () => {
    const resolved = async () => JSON.parse((await exportFrom('json', '&resolve=true')).text).C
    await importInto(format, files[format], { literal: true })
    expect(await project.state('development')).toEqual({ ...inFiles, C: '$${A} # no comment' })
    expect(await resolved()).toBe('${A} # no comment')
    await importInto(format, files[format], { mode: 'upsert' })
    expect(await resolved()).toBe('one # no comment')
  })

  test('writes every entry of the file, as one revision', async () => {
    const answer = await importInto(format, files[format], { message: 'from a file' })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body).toMatchObject({ success: true, revision: 1 })
    expect(statuses(answer.body)).toEqual({ A: 'created', B: 'created', C: 'created' })
    expect(await project.state('development')).toEqual(inFiles)
    const revisions = await project.revisions('development')
    expect(revisions).toHaveLength(1)
    expect(revisions[0]).toMatchObject({ revision: 1, message: 'from a file' })
    expect(revisions[0]?.changes).toHaveLength(3)
  })

  test('in mode create, the default, is refused if a value exists, and writes nothing', async () => {
    await project.set('development', { B: 'mine' })
    for (const more of [{}, { mode: 'create' }]) {
      const answer = await importInto(format, files[format], more)
      expect(answer.status).toBe(409)
      expect(answer.body.message).toContain('B')
    }
    expect(await project.state('development')).toEqual({ B: 'mine' })
  })

  test('in mode upsert writes changed values, and in mode skip missing ones', async () => {
    await project.set('development', { A: 'one', B: 'mine' })
    const skipped = await importInto(format, files[format], { mode: 'skip' })
    expect(statuses(skipped.body)).toEqual({ A: 'skipped', B: 'skipped', C: 'created' })
    expect(await project.state('development')).toEqual({ ...inFiles, B: 'mine' })
    const upserted = await importInto(format, files[format], { mode: 'upsert' })
    expect(statuses(upserted.body)).toEqual({ A: 'unchanged', B: 'updated', C: 'unchanged' })
    expect(await project.state('development')).toEqual(inFiles)
  })

  test('as a dry run reports the results and changes nothing', async () => {
    await project.set('development', { B: 'mine' })
    const answer = await importInto(format, files[format], { mode: 'upsert', dryRun: true })
    expect(answer.status).toBe(200)
    expect(statuses(answer.body)).toEqual({ A: 'created', B: 'updated', C: 'created' })
    expect(await project.state('development')).toEqual({ B: 'mine' })
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test('restores any text that an export has written', async () => {
    const text = fc.oneof(
      fc.string({ unit: anyCharacter, maxLength: 30 }),
      fc.constantFrom(...hostileValues),
      fc.array(fc.constantFrom(...hostileValues), { maxLength: 3 }).map((pieces) => pieces.join('')),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 20 }), async (values) => {
        project = await createSecretProject(service, owner.session)
        const written = Object.fromEntries(values.map((value, index) => [`KEY_${index}`, inert(value)]))
        await project.set('development', written)
        const { text: content } = await exportFrom(format)
        const answer = await importInto(format, content, { environmentId: 'staging' })
        expect(answer.status, answer.text).toBe(200)
        expect(await project.state('staging')).toEqual(written)
      }),
      { numRuns: times(8, 60) },
    )
  })

  test('restores every hostile value byte for byte, and a second export is the same file', async () => {
    const written = Object.fromEntries(
      [...hostileValues, largestValue].map((value, index) => [`KEY_${index}`, inert(value)]),
    )
    await project.set('development', written)
    const exported = await exportFrom(format)
    expect(exported.status, exported.text).toBe(200)
    const answer = await importInto(format, exported.text, { environmentId: 'staging' })
    expect(answer.status, answer.text).toBe(200)
    expect(await project.state('staging')).toEqual(written)
    expect((await exportFrom(format, '', undefined, 'staging')).text).toBe(exported.text)
  })
})

/** A file with one small entry per line. */
function fileOf(format: ImportFormat, keys: readonly string[]): string {
  if (format === 'dotenv') return keys.map((key) => `${key}=1\n`).join('')
  if (format === 'json') return `{${keys.map((key) => `"${key}": "1"`).join(',\n')}}`
  if (format === 'yaml') return keys.map((key) => `${key}: 1\n`).join('')
  return `key,value\n${keys.map((key) => `${key},1\n`).join('')}`
}
const firstLine = { dotenv: 1, json: 1, yaml: 1, csv: 2 }

describe.each(importFormats)('a file of %s', (format) => {
  test('with more than 10,000 entries is refused at the first excess one, however many follow', async () => {
    const keys = Array.from({ length: 100_000 }, (_, index) => `K${index}`)
    const answer = await importInto(format, fileOf(format, keys))
    expect(answer.status).toBe(400)
    expect(answer.body.message).toBe(`content: line ${10_000 + firstLine[format]}: more than 10,000 entries`)
    expect(await project.state('development')).toEqual({})
  })

  test.each([
    ['looks like an id', '0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', 'must not look like an id'],
    ['has other characters', 'a.b', 'is not 1-255 letters, digits, _ and -'],
  ])('with a key that %s is refused with its line number', async (_, key, problem) => {
    const answer = await importInto(format, fileOf(format, ['A', key]))
    expect(answer.status).toBe(400)
    const shown = format === 'json' || format === 'yaml' ? `"${key}"` : 'the key'
    expect(answer.body.message).toBe(`content: line ${firstLine[format] + 1}: ${shown} ${problem}`)
    expect(await project.state('development')).toEqual({})
  })
})

/** Avoids text that is refused as the display mask of a value. */
const inert = (value: string) => (/^(\*{8,}|•{4,})$/.test(value) ? `${value}.` : value)

/** Each of these has broken a parser or writer of some format. */
const hostileValues = [
  ...['', ' ', '  both sides  ', '\t', 'a #b', '# not a comment', '$', '$X', '${NOWHERE}', '$${X}', '$(id)', '`id`'],
  ...['\\', 'a\\', '\\n', '\\u0041', 'C:\\new\\table', "'", '"', '`', `it's "all" \`three\``, "it's $5", '%{if x}'],
  ...['a\nb', 'a\r\nb', 'a\rb', '\n', '\r\n', 'ends\n', '\nbegins', '-----BEGIN-----\nMIIE+/==\n-----END-----\n'],
  ...[
    'true',
    'null',
    '~',
    'NO',
    '1e3',
    '007',
    '1.0',
    '12:30:45',
    '2026-01-01',
    '- item',
    'key: value',
    '|',
    '<<',
    '---',
  ],
  ...['=1+1', 'a,b', 'export A=1', '\0', 'a\0b', '\u0001\u0007\u001b\u007f', '\u0085', '\u00a0', '\u2028', '\ufeff'],
  ...['\ufffe\uffff', '\u202eleft', '🔑', '👩‍👩‍👧 é 漢字', 'e\u0301', '\u{10ffff}', '{"a": ["b\\n"]}'],
]
const largestValue = 'x'.repeat(64 * 1024)

describe('an import with an error', () => {
  const broken: [format: ImportFormat, content: string, line: number][] = [
    ['dotenv', `A=1\nB="${canary}\nC=2`, 2],
    ['dotenv', `A=1\n\n${canary} ${canary}\n`, 3],
    ['dotenv', `A=1\nA=${canary}\n`, 2],
    ['dotenv', `A=1\nB C=${canary}\n`, 2],
    ['json', `{\n  "A": "1",\n  "B": "${canary}\n}`, 3],
    ['json', `{\n  "A": ["${canary}"]\n}`, 2],
    ['json', `{ "A": "${canary}" } ${canary}`, 1],
    ['json', `${canary}`, 1],
    ['yaml', `A: 1\nB: [${canary}, ${canary}]\n`, 2],
    ['yaml', `A: 1\nB: "${canary}\n`, 2],
    ['yaml', `A: 1\nA: ${canary}\n`, 2],
    ['csv', `key,value\nA,1\nB,"${canary}\n`, 3],
    ['csv', `key,value\nA,1\nB,${canary},${canary}\n`, 3],
    ['csv', `${canary},${canary}\nA,1\n`, 1],
    ['csv', `key,value\nA,${canary}"${canary}\n`, 2],
  ]
  test.each(broken)('%s: %j names the line, quotes no value and changes nothing', async (format, content, line) => {
    await project.set('development', { A: 'mine' })
    const logged = service.logs.length
    const answer = await importInto(format, content, { mode: 'upsert' })
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.message).toMatch(/^content: line \d+: /)
    // An unclosed quote is reported where it opens, or where the file ends.
    const named = Number(/line (\d+)/.exec(answer.body.message)?.[1])
    expect(named).toBeGreaterThanOrEqual(line)
    expect(named).toBeLessThanOrEqual(content.split('\n').length)
    expect(answer.text).not.toContain(canary)
    expect(service.logs.slice(logged).join('')).not.toContain(canary)
    expect(await project.state('development')).toEqual({ A: 'mine' })
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test('names a value that is too large by its key', async () => {
    const answer = await importInto('dotenv', `A=1\nB=${canary.repeat(12_000)}\n`)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toBe('content: line 2: the value of B is larger than 64 KiB')
    expect(await project.state('development')).toEqual({})
  })

  test('is refused as a whole if its values form a reference cycle', async () => {
    const answer = await importInto('dotenv', 'A=1\nB=${C}\nC=${B}\n')
    expect(answer.status).toBe(409)
    expect(await project.state('development')).toEqual({})
  })

  test.each([
    [{ format: 'toml' }, 400],
    [{ format: 'shell' }, 400],
    [{ mode: 'replace' }, 400],
    [{ content: 1 }, 400],
    [{ environmentId: 'nowhere' }, 404],
  ])('with %j is refused', async (more, status) => {
    expect((await importInto('dotenv', 'A=1', more)).status).toBe(status)
  })

  test('by a read-only token, or into an environment out of scope, is refused', async () => {
    const scope = { environments: [project.idOf('development')] }
    const reader = await createToken(service, owner.session, { permission: 'read', scope })
    const writer = await createToken(service, owner.session, { scope })
    const body = { environmentId: 'development', format: 'dotenv', content: 'A=1' }
    const send = async (token: string, more = {}) =>
      (await project.ask('POST', '/secret/import', { ...body, ...more }, token)).status
    expect(await send(reader.token)).toBe(403)
    expect(await send(writer.token, { environmentId: 'staging' })).toBe(404)
    expect(await send(writer.token)).toBe(200)
    expect((await exportFrom('json', '', reader.token)).status).toBe(200)
    expect((await exportFrom('json', '', reader.token, 'staging')).status).toBe(404)
  })
})

test('an empty import changes nothing', async () => {
  for (const [format, content] of [
    ['dotenv', '# nothing\n'],
    ['json', '{}'],
    ['csv', 'key,value\n'],
  ] as const) {
    const answer = await importInto(format, content)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.results).toEqual([])
  }
  expect(await project.revisions('development')).toEqual([])
})
