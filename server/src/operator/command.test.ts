/** The command line: help, version and unknown commands. No test here opens a store. */
import { describe, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { runProgram } from '../../../test/program.ts'
import { settings as allSettings } from '../setting.ts'

describe('the command line', () => {
  test('--help lists every command and setting, even with invalid settings', async () => {
    const wrong = { COFFER_PORT: 'nonsense' }
    const answers = [
      await runProgram(['--help'], wrong),
      await runHere(['help'], wrong),
      await runHere(['keys', '--help'], wrong),
    ]
    for (const { code, out, err } of answers) {
      expect({ code, err }).toEqual({ code: 0, err: '' })
      for (const command of [
        'serve',
        'keys status',
        'keys rotate-root',
        'keys rotate-workspace <ws>',
        'audit verify-archive <file>…',
        'doctor',
      ]) {
        expect(out).toContain(`  ${command} `)
      }
      for (const { name, meaning } of allSettings) expect(out).toContain(`${name.padEnd(28)} ${meaning}`)
    }
  })

  test('--version is one line', async () => {
    expect(await runHere(['--version'])).toEqual({
      code: 0,
      err: '',
      out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })

  test.each([
    ['frobnicate', runProgram],
    ['keys', runHere],
    ['keys rotate-workspace', runHere],
    ['serve now', runHere],
    ['doctor twice', runHere],
  ])('an unknown command exits with 2 and points to --help: %s', async (words, run) => {
    const { code, out, err } = await run(words.split(' '))
    expect({ code, out, err }).toEqual({ code: 2, out: '', err: `"${words}" is not a command. --help lists them.\n` })
  })
})
