import { expect, test } from 'vitest'
import { type Flags, parseFlags } from './flag.ts'

const declared: Flags = {
  yes: { type: 'boolean', short: 'y', about: '' },
  quiet: { type: 'boolean', short: 'q', about: '' },
  environment: { type: 'string', short: 'e', about: '' },
  key: { type: 'list', short: 'k', about: '' },
  all: { type: 'optional', about: '' },
}
const nothing = { yes: false, quiet: false, key: [] }

test.each([
  [['a', '-', ''], {}, ['a', '-', '']],
  [['-yq', 'a'], { yes: true, quiet: true }, ['a']],
  [['-eprod', '--key', '1', '-k=2', '--key='], { environment: 'prod', key: ['1', '=2', ''] }, []],
  [['-qeprod', 'a'], { quiet: true, environment: 'prod' }, ['a']],
  [['-ye', 'prod'], { yes: true, environment: 'prod' }, []],
  [['--environment', 'a=b', 'c', '--yes'], { environment: 'a=b', yes: true }, ['c']],
  [['--environment=a=b', '--all', 'c'], { environment: 'a=b', all: '' }, ['c']],
  [['-qe-'], { quiet: true, environment: '-' }, []],
  [['--all=1', 'a'], { all: '1' }, ['a']],
])('%j is read', (given, flags, args) => {
  expect(parseFlags(declared, given, 'coffer run')).toEqual({ flags: { ...nothing, ...flags }, args })
})

test.each([
  ['-x', '-x is not a flag of coffer run.'],
  ['-yx', '-x is not a flag of coffer run.'],
  ['-y-', '-- is not a flag of coffer run.'],
  ['-y-eprod', '-- is not a flag of coffer run.'],
  ['--other=secret', '--other is not a flag of coffer run.'],
  ['--__proto__=secret', '--__proto__ is not a flag of coffer run.'],
  ['--yes=secret', '--yes takes no value.'],
  ['-y=secret', '-= is not a flag of coffer run.'],
])('%s is refused, and no value is in the error', (given, message) => {
  expect(() => parseFlags(declared, [given], 'coffer run')).toThrow(message)
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
