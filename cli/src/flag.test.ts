import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../test/tier.ts'
import { type Flags, parseFlags, tokenize } from './flag.ts'

const declared: Flags = {
  yes: { type: 'boolean', short: 'y', about: '' },
  quiet: { type: 'boolean', short: 'q', about: '' },
  environment: { type: 'string', short: 'e', about: '' },
  key: { type: 'list', short: 'k', about: '' },
}
const options = Object.fromEntries(
  Object.entries(declared).map(([name, { type, short = '' }]) => [
    name,
    { type: type === 'boolean' ? ('boolean' as const) : ('string' as const), short, multiple: type === 'list' },
  ]),
)
const word = fc.oneof(
  fc.constantFrom('-', '', 'a', '-y', '-yq', '-ye', '-eprod', '-qeprod', '-e', '-x', '-xy', '-e=a', '--yes', '--yes=1'),
  fc.constantFrom('--environment', '--environment=', '--environment=a=b', '--key', '--key=1', '--other', '--other=2'),
  // Node reads the second dash of `-a-` as the separator; the program removes the separator before.
  fc.string().filter((text) => text !== '--' && !/^-[^-].*-/s.test(text)),
)

test('reads arguments as parseArgs of Node does', () => {
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (args) => {
      const { tokens } = parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true })
      const theirs = tokens.map((token) =>
        token.kind === 'option'
          ? { name: token.name, rawName: token.rawName, value: token.value, isInline: token.inlineValue === true }
          : token.kind === 'positional'
            ? token.value
            : '--',
      )
      expect(tokenize(declared, args)).toEqual(theirs)
    }),
    { numRuns: times(2_000, 50_000) },
  )
})

test.each(['-KdQ3yUvW', '--dQ3yUvW', '-', '-yUvW', '--environments'])('%s is a value after a flag', (value) => {
  for (const given of [['-e', value], ['--environment', value], [`--environment=${value}`]]) {
    expect(parseFlags(declared, given, 'coffer run')).toMatchObject({ flags: { environment: value }, args: [] })
  }
})

test.each(['--', '-y', '-e', '--yes', '--key=1', undefined])('%s is no value after a flag', (value) => {
  const given = value === undefined ? [] : [value]
  for (const flag of ['-e', '--environment']) {
    expect(() => parseFlags(declared, [flag, ...given], 'coffer run')).toThrow(`${flag} needs a value.`)
  }
})
