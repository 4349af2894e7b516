/** The command line: help, version and unknown commands. No test here opens a store. */
import { describe, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { runProgram } from '../../../test/start-server.ts'
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
      out: expect.stringMatching(/^\d+\.\d+\.\d+ \([0-9a-f]{12}\)\n$/),
    })
  })

  test.each([
    ['frobnicate', runProgram],
    ['serve now', runHere],
  ])('an unknown command exits with 2 and points to --help: %s', async (words, run) => {
    const { code, out, err } = await run(words.split(' '))
    expect({ code, out, err }).toEqual({ code: 2, out: '', err: `"${words}" is not a command. --help lists them.\n` })
  })

  test('an unknown command of a known group lists the group', async () => {
    const { code, out, err } = await runHere(['policy'])
    const usage = 'Usage: npm run coffer-server -- policy reset <ws>\n'
    expect({ code, out, err }).toEqual({ code: 2, out: '', err: `"policy" is not a command.\n${usage}` })
    expect((await runHere(['keys'])).err).toMatch(
      /^"keys" is not a command\.\nUsage: .* keys status\n( {7}.* keys .*\n)+$/,
    )
  })

  test.each([
    ['keys rotate-workspace', 'keys rotate-workspace <ws>'],
    ['keys rotate-environment a', 'keys rotate-environment <ws> <project> <environment>'],
    ['doctor twice', 'doctor'],
    ['doctor --json twice', 'doctor --json'],
    ['demo --into', 'demo --into <ws>'],
    ['audit verify-archive', 'audit verify-archive <file>…'],
    // Never a backup to a file of this name.
    ['backup verify', 'backup verify <file or s3://…> [--scratch <folder>]'],
  ])('a wrong number of arguments exits with 2 and shows the usage: %s', async (words, usage) => {
    const { code, out, err } = await runHere(words.split(' '))
    expect({ code, out, err }).toEqual({ code: 2, out: '', err: `Usage: npm run coffer-server -- ${usage}\n` })
  })
})
