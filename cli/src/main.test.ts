/** The program itself: help, unknown words, errors and exit codes. */
import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openShell } from '../../test/cli.ts'

test('prints its commands without arguments and with --help', async () => {
  const shell = openShell()
  const bare = await shell.coffer([])
  const asked = await shell.coffer(['--help'])
  expect(bare).toMatchObject({ code: 0, err: '' })
  expect(bare.out).toContain('Usage: coffer <command> [flags]')
  expect(asked).toEqual(bare)
})

test('prints its version', async () => {
  const { code, out } = await openShell().coffer(['--version'])
  expect(code).toBe(0)
  expect(out).toMatch(/^\d+\.\d+\.\d+ \([0-9a-f]{12}\)\n$/)
})

test('takes help and version as words', async () => {
  const shell = openShell()
  for (const [word, flag] of [
    [['help'], ['--help']],
    [
      ['help', 'secrets', 'set'],
      ['secrets', 'set', '--help'],
    ],
    [['version'], ['--version']],
  ] as const) {
    expect(await shell.coffer(word)).toEqual(await shell.coffer(flag))
  }
})

test('says which Node it needs', () => {
  const older = "data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.1.0'}})"
  const start = join(import.meta.dirname, '../start.js')
  const ended = spawnSync(process.execPath, ['--import', older, start, '--version'], { encoding: 'utf8' })
  expect(ended).toMatchObject({
    status: 1,
    stdout: '',
    stderr: 'coffer needs Node 24 or later; this is Node 20.1.0.\n',
  })
})

test.each([
  { args: ['whoamI'], err: '`whoamI` is not a command of coffer.\ntry: coffer whoami' },
  { args: ['whoami', '--jsn'], err: '--jsn is not a flag of coffer whoami.\ntry: --json' },
  { args: ['whoami', '--url'], err: '--url needs a value.\ntry: --url=URL' },
  { args: ['whoami', '--url', '--json'], err: '--url needs a value.\ntry: --url=URL' },
  { args: ['whoami', '-C', '--json'], err: '-C needs a value.\ntry: --cwd=FOLDER' },
  { args: ['whoami', '--json=1'], err: '--json takes no value.' },
  { args: ['whoami', 'me'], err: 'There are too many arguments.\ntry: coffer whoami' },
  { args: ['whoami', '--', 'me'], err: 'coffer whoami takes no `--`.\ntry: coffer whoami' },
  { args: ['whoami', '--url', ''], err: '--url is empty.\ntry: --url=URL' },
  { args: ['status', '-e', ''], err: '--environment is empty.\ntry: --environment=NAME' },
  { args: ['status', '-C', 'absent'], err: 'There is no folder absent.' },
  { args: ['ls'], err: '`ls` is not a command of coffer.\ntry: coffer secrets list' },
  { args: ['set', 'A=1'], err: '`set` is not a command of coffer.\ntry: coffer secrets set' },
  { args: ['help', 'runn'], err: '`runn` is not a command of coffer.\ntry: coffer run' },
  { args: ['secrets', 'list', '-C', '/dev/null'], err: 'There is no folder /dev/null.' },
  { args: ['whoami'], err: 'The address of the service is not known.\ntry: coffer login URL' },
])('refuses $args', async ({ args, err }) => {
  expect(await openShell().coffer(args)).toMatchObject({ code: 2, out: '', err: `coffer: ${err}\n` })
})

test('says what to do if nobody is signed in', async () => {
  const { code, err } = await openShell().coffer(['whoami', '--url', 'http://127.0.0.1:1'])
  expect(code).toBe(3)
  expect(err).toBe('coffer: You are not signed in to http://127.0.0.1:1.\ntry: coffer login http://127.0.0.1:1\n')
})

test('names the source of an address that is no URL, without quoting it', async () => {
  for (const address of ['notaurl', 'ftp://user:hidden@example.com', 'http://']) {
    const shell = openShell({ COFFER_TOKEN: 'coffer_live_x', COFFER_URL: address })
    expect(await shell.coffer(['whoami'])).toEqual({
      code: 2,
      signal: null,
      out: '',
      err: 'coffer: The address of the service, from COFFER_URL, is not an http(s) URL.\ntry: https://coffer.example.com\n',
    })
  }
  const { code, err } = await openShell({ COFFER_TOKEN: 'coffer_live_x' }).coffer(['whoami', '--url', 'notaurl'])
  expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('from --url,') })
})

test('says that the service cannot be reached', async () => {
  const shell = openShell({ COFFER_TOKEN: 'coffer_live_x', COFFER_URL: 'http://127.0.0.1:1' })
  expect(await shell.coffer(['whoami'])).toMatchObject({
    code: 7,
    err: 'coffer: http://127.0.0.1:1 cannot be reached (ECONNREFUSED).\ntry: start it with coffer-server, or with npm start in a checkout\n',
  })
})

test('says that a full disk takes no output', async () => {
  const full = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(full))
  const start = join(import.meta.dirname, '../start.js')
  const ended = spawnSync(process.execPath, [start, 'completion', 'bash'], { stdio: ['ignore', full, 'pipe'] })
  expect(ended.status).toBe(1)
  expect(ended.stderr.toString()).toBe('coffer: The output cannot be written (ENOSPC).\n')
})

test('runs in a terminal', async () => {
  const session = openShell().terminal(['whoami'])
  await session.see('try: coffer login URL')
  expect(await session.ended).toMatchObject({ code: 2 })
})
