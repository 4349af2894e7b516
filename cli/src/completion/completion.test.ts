/** Completion of command lines: the scripts in real shells, and names from the real service. */
import { execFile, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { requirePrograms } from '../../../test/debian-package.ts'
import { type SdkService, startScripted, startSdkService } from '../../../test/sdk-service.ts'
import { isDeep } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'

if (isDeep) await requirePrograms('zsh', 'fish')

const run = promisify(execFile)
/** On a busy machine the service may miss the limit of 300 ms. */
const busy = { retry: 5 }

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ DATABASE_URL: 'canary-value', DATABASE_POOL: '5', PORT: '1' })
})
afterAll(() => running.stop())

const complete = async (shell: Shell, words: readonly string[], env: Record<string, string> = running.env) => {
  const { code, out, err } = await shell.coffer(['__complete', '--', ...words], { env })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\t')[0])
}

test.each([
  { words: ['who'], found: ['whoami'] },
  { words: ['completion', ''], found: ['bash', 'zsh', 'fish', 'powershell'] },
  { words: ['completion', 'z'], found: ['zsh'] },
  { words: ['login', '--st'], found: ['--store'] },
  { words: ['login', '--store', ''], found: ['keychain', 'file'] },
  { words: ['login', '--store=f'], found: ['--store=file'] },
  { words: ['login', '--store', '=', 'f'], found: ['file'] },
  { words: ['--project', 'api', 'who'], found: ['whoami'] },
  { words: ['whoami', '-p', ''], found: ['api'] },
  { words: ['whoami', '--workspace', 'm'], found: ['main'] },
  { words: ['whoami', '--environment', 'st'], found: ['staging'] },
  { words: ['whoami', '--environment=st'], found: ['--environment=staging'] },
  { words: ['whoami', '-e', 'development,st'], found: ['development,staging'] },
  { words: ['whoami', '--project', 'none', '-e', ''], found: [] },
  { words: ['nonsense', ''], found: [] },
  { words: ['__comp'], found: [] },
  { words: ['whoami', '--', 'x'], found: [] },
])('completes $words', busy, async ({ words, found }) => {
  expect(await complete(openShell(), words)).toEqual(found)
})

test('completes the names of secrets, never their values', busy, async () => {
  const shell = openShell()
  expect(await complete(shell, ['secrets', 'get', 'DATA'])).toEqual(['DATABASE_POOL', 'DATABASE_URL'])
  const { out } = await shell.coffer(['__complete', '--', 'secrets', 'get', ''], { env: running.env })
  expect(out).not.toContain('canary-value')
})

test('leaves out flags that are given already', async () => {
  const found = await complete(openShell(), ['whoami', '--json', '-q', '--'])
  expect(found).toContain('--url')
  expect(found).not.toContain('--json')
  expect(found).not.toContain('--quiet')
})

test.each([
  ['refuses the credential', { COFFER_TOKEN: 'coffer_live_wrong' }],
  ['cannot be reached', { COFFER_URL: 'http://127.0.0.1:1' }],
  ['has an address that is none', { COFFER_URL: 'nonsense' }],
])('says nothing if the service %s', async (_, env) => {
  expect(await complete(openShell(), ['whoami', '-p', ''], { ...running.env, ...env })).toEqual([])
})

test('says nothing in a folder with a broken .coffer.json', async () => {
  const shell = openShell()
  writeFileSync(join(shell.cwd, '.coffer.json'), '{')
  expect(await complete(shell, ['whoami', '-p', ''])).toEqual([])
})

test('gives up on a service that hangs after a moment', async () => {
  // Other commands wait for 10 seconds.
  const hanging = await startScripted(() => undefined)
  const shell = openShell()
  const startedAt = performance.now()
  const answer = complete(shell, ['whoami', '-p', ''], { ...running.env, COFFER_URL: hanging.url })
  await until(() => hanging.requests.length > 0 || undefined, 120_000, 'the service is asked')
  const askedAt = performance.now()
  expect(await answer).toEqual([])
  expect(performance.now() - askedAt, `asked after ${askedAt - startedAt} ms`).toBeLessThan(9_000)
})

/** A folder with the program under its name, and its completion script for the shell. */
async function install(shell: Shell, name: string): Promise<{ path: string; script: string }> {
  const path = join(shell.home, 'bin')
  mkdirSync(path)
  const program = join(path, 'coffer')
  const start = join(import.meta.dirname, '../../start.js')
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${start}' "$@"\n`)
  chmodSync(program, 0o755)
  const { out, code } = await shell.coffer(['completion', name])
  expect(code).toBe(0)
  const script = join(shell.home, `coffer.${name}`)
  writeFileSync(script, out)
  return { path, script }
}

const runShell = async (shell: Shell, path: string, command: string, args: readonly string[]) => {
  const env = { ...running.env, HOME: shell.home, PATH: `${path}:${process.env.PATH}`, TERM: 'xterm' }
  const { stdout, stderr } = await run(command, [...args], { env, cwd: shell.cwd })
  expect(stderr).toBe('')
  return stdout.split('\n').filter((line) => line !== '')
}

test.each([
  { typed: ['who'], found: ['whoami'] },
  { typed: ['whoami', '--environment', '=', 'dev'], found: ['development'] },
  { typed: ['secrets', 'get', 'P'], found: ['PORT'] },
  { typed: ['run', '--', 'printen'], found: ['printenv'] },
  { typed: ['run', '-e', 'staging', '--', './scr'], found: ['./script.sh'] },
  { typed: ['run', '--', 'cat', 'no'], found: ['notes and more.txt'] },
  { typed: ['run', '--', 'cat', 'printen'], found: [] },
])('bash completes $typed', busy, async ({ typed, found }) => {
  const shell = openShell()
  const { path, script } = await install(shell, 'bash')
  for (const name of ['script.sh', 'notes and more.txt']) writeFileSync(join(shell.cwd, name), '')
  const words = ['coffer', ...typed].map((word) => `'${word}'`).join(' ')
  const test = `source ${script}; COMP_WORDS=(${words}); COMP_CWORD=${typed.length}; _coffer; printf '%s\\n' "\${COMPREPLY[@]}"`
  expect(await runShell(shell, path, 'bash', ['--norc', '-c', test])).toEqual(found)
})

if (isDeep) {
  test('zsh loads the script', async () => {
    const shell = openShell()
    const { path, script } = await install(shell, 'zsh')
    const test = `autoload -U compinit && compinit -u -D; source ${script}; print $_comps[coffer]`
    expect(await runShell(shell, path, 'zsh', ['-f', '-c', test])).toEqual(['_coffer'])
  })

  test('zsh completes the command after run -- and its files, as typed', async () => {
    const shell = openShell()
    const { path, script } = await install(shell, 'zsh')
    writeFileSync(join(shell.cwd, 'notes.txt'), 'seen\n')
    const start = `PS1=ready%#\nautoload -U compinit && compinit -u -D; source ${script}\n`
    const env = { ...running.env, HOME: shell.home, PATH: `${path}:${process.env.PATH}`, TERM: 'xterm' }
    const zsh = spawn('script', ['-qec', 'zsh -f', '/dev/null'], { env, cwd: shell.cwd })
    onTestFinished(() => void zsh.kill())
    let out = ''
    zsh.stdout.on('data', (text: Buffer) => {
      out += text
    })
    zsh.stdin.write(start)
    await until(() => /ready%/.test(out) || undefined, 60_000, 'zsh is ready')
    zsh.stdin.write('coffer run -- printen\t PORT\n')
    await until(() => /\n1\r?\n/.test(out) || undefined, 60_000, 'the completed command has run')
    zsh.stdin.write('coffer run -- cat no\t\n')
    await until(() => /\nseen\r?\n/.test(out) || undefined, 60_000, 'the completed file is printed')
  })

  test.each([
    ['coffer run -- printen', 'printenv'],
    ['coffer run -e staging -- cat no', 'notes.txt'],
  ])('fish completes %s', async (typed, found) => {
    const shell = openShell()
    const { path, script } = await install(shell, 'fish')
    writeFileSync(join(shell.cwd, 'notes.txt'), '')
    const lines = await runShell(shell, path, 'fish', ['--no-config', '-c', `source ${script}; complete -C '${typed}'`])
    expect(lines.map((line) => line.split('\t')[0])).toEqual([found])
  })

  test('fish completes words', async () => {
    const shell = openShell()
    const { path, script } = await install(shell, 'fish')
    const found = await runShell(shell, path, 'fish', [
      '--no-config',
      '-c',
      `source ${script}; complete -C 'coffer who'`,
    ])
    expect(found.map((line) => line.split('\t')[0])).toEqual(['whoami'])
  })
}

test('refuses a shell that it does not know', async () => {
  expect(await openShell().coffer(['completion', 'tcsh'])).toMatchObject({
    code: 2,
    out: '',
    err: 'coffer: The shell must be one of: bash, zsh, fish, powershell.\ntry: coffer completion bash\n',
  })
})
