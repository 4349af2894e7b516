/** `coffer run --redact`: the output of a real command. */
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../../test/sdk-service.ts'
import { until } from '../../../../test/wait.ts'
import { pipeRedacted } from './pipe.ts'
import { createRedactor } from './redactor.ts'

let running: SdkService
const value = 'canary-value-0123456789'
const key = '-----BEGIN KEY-----\nfirst-line-of-key\nsecond-line-of-key\n-----END KEY-----'
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ KEY: value, PEM: key, MODE: 'test', LEVEL: '123456', NAME: 'public-name' })
})
afterAll(() => running.stop())

const open = (env: Record<string, string> = {}) => openShell({ ...running.env, ...env })
const node = (script: string) => ['--', process.execPath, '-e', script]

test('hides values in both streams, in pieces too, and nothing else', async () => {
  const script = `
    const { KEY, PEM, MODE, LEVEL, NAME } = process.env
    console.log('a', KEY, MODE, LEVEL, NAME)
    console.error('b', JSON.stringify(PEM))
    process.stdout.write('c ' + KEY.slice(0, 9))
    process.stdout.write(KEY.slice(9) + ' d')
    process.exitCode = 4`
  expect(await open().coffer(['run', '--redact', '--show', 'NAME', ...node(script)])).toEqual({
    code: 4,
    signal: null,
    out: 'a *** test 123456 public-name\nc *** d',
    err: 'b "***"\n',
  })
})

test('is off by default, and on with COFFER_REDACT=1 or run.redact', async () => {
  const print = ['run', '--', 'sh', '-c', 'echo "$KEY"']
  expect(await open().coffer(print)).toMatchObject({ out: `${value}\n` })
  expect(await open({ COFFER_REDACT: '1' }).coffer(print)).toMatchObject({ out: '***\n' })
  const shell = open()
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ run: { redact: true } }))
  expect(await shell.coffer(print)).toMatchObject({ out: '***\n' })
})

test('does not hold a prompt back', async () => {
  const shell = open()
  const script = 'printf "Name: can"; until [ -e go ]; do sleep 0.1; done; printf ary; sleep 600'
  const program = shell.start(['run', '--redact', '--', 'sh', '-c', script])
  await until(() => program.out() === 'Name: can' || undefined, 120_000, 'the prompt appears')
  writeFileSync(join(shell.cwd, 'go'), '')
  await until(() => program.out() === 'Name: canary' || undefined, 120_000, 'the rest of the prompt appears')
  program.child.kill('SIGTERM')
  await program.ended
})

test('a value is hidden although this process was too busy to read its second half in time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-pipe-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [shown, written] = [join(folder, 'shown'), join(folder, 'written')]
  const command = spawn('sh', ['-c', `printf canary-; read go; printf value; touch '${written}'`])
  const fd = openSync(shown, 'w')
  const pipe = pipeRedacted(command.stdout, fd, createRedactor([Buffer.from('canary-value')]))
  command.stdout.once('data', () => {
    command.stdin.write('\n')
    while (!existsSync(written)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
  })
  await once(command, 'exit')
  await pipe.finish()
  closeSync(fd)
  expect(readFileSync(shown, 'utf8')).toBe('***')
})

test('a value is hidden although our reader is so far behind that its second half is not read yet', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-pipe-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'pipe')
  await promisify(execFile)('mkfifo', [path])
  const reader = spawn('sh', ['-c', `exec 3< '${path}'; read go; exec cat <&3`])
  let shown = ''
  reader.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text))
  const fd = openSync(path, 'w')
  const source = new PassThrough()
  const pipe = pipeRedacted(source, fd, createRedactor([Buffer.from('canary-value')]))
  // More than the pipe and our buffer hold.
  const start = 'x'.repeat(200_000)
  source.write(`${start}canary-`)
  await until(() => source.isPaused() || undefined, 120_000, 'the source waits')
  source.write('value')
  // Longer than the beginning of a value is held back.
  await sleep(200)
  reader.stdin.write('\n')
  source.end()
  await pipe.finish()
  closeSync(fd)
  await once(reader, 'close')
  expect(shown === `${start}***`, shown.replaceAll('x', '')).toBe(true)
})

test('64 MB come through intact', async () => {
  const script = `
    const { createHash, randomFillSync } = require('node:crypto')
    const hash = createHash('sha256')
    let left = 64
    const next = () => {
      if (left-- === 0) return console.error(hash.digest('hex'))
      const chunk = randomFillSync(Buffer.alloc(2 ** 20))
      hash.update(chunk)
      process.stdout.write(chunk, next)
    }
    next()`
  const shell = open()
  const hash = createHash('sha256')
  let size = 0
  // A reader of its own: the one of the tests would decode the bytes.
  const program = shell.start([
    'run',
    '--shell',
    '--redact',
    '--',
    `'${process.execPath}' -e '${script.replaceAll("'", '"')}'`,
  ])
  program.child.stdout?.removeAllListeners('data')
  program.child.stdout?.setEncoding('latin1').on('data', (text: string) => {
    size += text.length
    hash.update(text, 'latin1')
  })
  const { code, err } = await program.ended
  expect({ code, size, err }).toEqual({ code: 0, size: 64 * 2 ** 20, err: `${hash.digest('hex')}\n` })
})

test('a reader that goes away ends the command, as it would without --redact', async () => {
  const program = join(import.meta.dirname, '../../../start.js')
  const pipeline = `'${process.execPath}' '${program}' run --redact -- yes | head -n 2`
  expect(await open().coffer(['run', '--shell', '--preserve-env=COFFER_TOKEN', '--', pipeline])).toMatchObject({
    code: 0,
    out: 'y\ny\n',
  })
})

test('a process that the command has left behind does not keep it from ending', async () => {
  const ended = await open().coffer(['run', '--redact', '--', 'sh', '-c', 'sleep 600 & echo $!; exit 3'])
  // Throws if the process has ended by itself.
  process.kill(Number(ended.out), 'SIGKILL')
  expect(ended.code).toBe(3)
})

test('a terminal is inherited', async () => {
  const session = open().terminal(['run', '--redact', ...node('console.log("tty", process.stdout.isTTY)')])
  await session.see('tty true')
  expect(await session.ended).toMatchObject({ code: 0 })
})

test('GitHub Actions is told to mask each line, and only with --redact', async () => {
  const masked = await open({ GITHUB_ACTIONS: 'true' }).coffer(['run', '--redact', '--', 'true'])
  expect(masked.out).toBe('')
  expect(masked.err.trim().split('\n').sort()).toEqual(
    [
      `::add-mask::${value}`,
      '::add-mask::first-line-of-key',
      '::add-mask::public-name',
      '::add-mask::second-line-of-key',
    ].sort(),
  )
  expect(await open({ GITHUB_ACTIONS: 'true' }).coffer(['run', '--', 'true'])).toMatchObject({ out: '', err: '' })
})

test('GitHub Actions is not told the values where another program reads them', async () => {
  const { home, cwd } = open()
  const start = join(import.meta.dirname, '../../../start.js')
  const env = { ...running.env, GITHUB_ACTIONS: 'true', PATH: process.env.PATH, HOME: home }
  const program = `"$0" "$1" run --redact -- printenv KEY 2>&1 | cat`
  const { stdout } = await promisify(execFile)('sh', ['-c', program, process.execPath, start], { env, cwd })
  expect(stdout).toBe('coffer: stderr is joined with stdout, so GitHub is not told what to mask.\n***\n')
})

test.each([
  { about: 'that is in no hurry', flags: '--redact', kilobytes: 190 },
  { about: 'that also reads the remarks', flags: '-v --redact --only KEY', kilobytes: 2_000 },
])('loses nothing with a reader $about', async ({ flags, kilobytes }) => {
  const { home, cwd } = open()
  const script = `for (let i = 0; i < ${kilobytes}; i++) require('fs').writeSync(1, 'x'.repeat(1000))`
  const program = `"$NODE" "$START" run ${flags} -- "$NODE" -e "$SCRIPT" 2>&1 | (sleep 1.5; tr -cd x | wc -c)`
  const names = { NODE: process.execPath, START: join(import.meta.dirname, '../../../start.js'), SCRIPT: script }
  const env = { ...running.env, ...names, PATH: process.env.PATH, HOME: home, KEY: 'old' }
  const { stdout } = await promisify(execFile)('sh', ['-c', program], { env, cwd })
  // The remark names the environment without an x, and KEY.
  expect(Number(stdout)).toBe(kilobytes * 1_000)
})
