/** Signals, process groups and the end of the command. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { until } from '../../../test/wait.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ KEY: 'value' })
})
afterAll(() => running.stop())

const open = () => openShell(running.env)
const node = (script: string) => ['--', process.execPath, '-e', script]
const start = join(import.meta.dirname, '../../start.js')

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('the end of the command by a signal', () => {
  test.each(['SIGTERM', 'SIGKILL', 'SIGINT', 'SIGHUP', 'SIGUSR2'] as const)('%s is raised again', async (signal) => {
    const ended = await open().coffer(['run', '--', 'sh', '-c', `kill -${signal.slice(3)} $$`])
    expect(ended).toEqual({ code: null, signal, out: '', err: '' })
  })

  // A core dump of ours would hold the secrets; Node uses SIGUSR1 and ignores SIGPIPE.
  test.each([
    ['SIGSEGV', 139],
    ['SIGABRT', 134],
    ['SIGQUIT', 131],
    ['SIGUSR1', 138],
    ['SIGPIPE', 141],
  ])('%s becomes the exit code %i', async (signal, code) => {
    const ended = await open().coffer(['run', '--', 'sh', '-c', `kill -${signal.slice(3)} $$`])
    expect(ended).toMatchObject({ code, signal: null, err: '' })
  })
})

describe('without a terminal', () => {
  test('SIGTERM is forwarded, and the clean-up of the command is waited for', async () => {
    const script = `process.on('SIGTERM', () => setTimeout(() => { console.log('cleaned'); process.exit(7) }, 600)); setInterval(() => {}, 1e3); console.log('ready')`
    const program = open().start(['run', ...node(script)])
    await until(() => program.out().includes('ready') || undefined, 120_000, 'the command runs')
    program.child.kill('SIGTERM')
    expect(await program.ended).toMatchObject({ code: 7, signal: null, out: 'ready\ncleaned\n', err: '' })
  })

  test('SIGTERM ends everything that the command has started', async () => {
    const program = open().start(['run', '--', 'sh', '-c', 'sleep 300 & echo $!; sleep 300 & echo $!; wait'])
    const pids = await until(
      () => {
        const lines = program.out().trim().split('\n').map(Number)
        return lines.length === 2 ? lines : undefined
      },
      120_000,
      'both processes run',
    )
    expect(pids.map(isAlive)).toEqual([true, true])
    program.child.kill('SIGTERM')
    expect(await program.ended).toMatchObject({ signal: 'SIGTERM', err: '' })
    await until(() => !pids.some(isAlive) || undefined, 120_000, 'both processes have ended')
  })

  test('SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded, each once', async () => {
    const signals = ['SIGUSR1', 'SIGHUP', 'SIGUSR2', 'SIGINT'] as const
    const script = `for (const s of ${JSON.stringify(signals)}) process.on(s, () => { console.log(s); if (s === 'SIGINT') setTimeout(process.exit, 300, 3) }); setInterval(() => {}, 1e3); console.log('ready')`
    const program = open().start(['run', ...node(script)])
    for (const [index, signal] of signals.entries()) {
      const before = ['ready', ...signals.slice(0, index)].join('\n')
      await until(() => program.out() === `${before}\n` || undefined, 120_000, before)
      program.child.kill(signal)
    }
    expect(await program.ended).toMatchObject({ code: 3, out: `ready\n${signals.join('\n')}\n`, err: '' })
  })
})

describe('in a terminal', () => {
  test('Ctrl-C reaches the command once, and its clean-up is waited for', async () => {
    const script = `let count = 0; process.on('SIGINT', () => { count++; setTimeout(() => { console.log('count', count); process.exit(40 + count) }, 600) }); setInterval(() => {}, 1e3); console.log('ready')`
    const session = open().terminal(['run', ...node(script)])
    await session.see('ready')
    session.type('\u0003')
    await session.see('count 1')
    expect(await session.ended).toMatchObject({ code: 41 })
  })

  test('Ctrl-\\ goes to the command alone', async () => {
    const script = `process.on('SIGQUIT', () => process.exit(5)); setInterval(() => {}, 1e3); console.log('ready')`
    const session = open().terminal(['run', ...node(script)])
    await session.see('ready')
    session.type('\u001c')
    expect(await session.ended).toMatchObject({ code: 5 })
  })

  test('the command has the terminal, and can be stopped with Ctrl-Z and continued', async () => {
    const session = open().terminal(['run', '--preserve-env=COFFER_TOKEN', '--', 'bash', '--norc', '-i'])
    const script = `console.log('tty', process.stdin.isTTY, process.stdout.isTTY); process.stdin.once('data', (line) => { console.log('got', String(line).trim()); process.exit(9) })`
    session.type(`PS1='$ '; ${process.execPath} ${start} run -- ${process.execPath} -e "${script}"\n`)
    await session.see('tty true true')
    session.type('\u001a')
    await session.see('Stopped')
    session.type('echo ba""ck; jobs\n')
    await session.see('back')
    session.type('fg\n')
    await session.see('start.js run')
    session.type('hello\n')
    await session.see('got hello')
    session.type('echo code $?\n')
    await session.see('code 9')
    session.type('exit 6\n')
    expect(await session.ended).toMatchObject({ code: 6 })
  })

  test('SIGTERM is forwarded to the command', async () => {
    const script = `process.on('SIGTERM', () => process.exit(8)); setInterval(() => {}, 1e3); console.log('parent', process.ppid, 'ready')`
    const session = open().terminal(['run', ...node(script)])
    await session.see('ready')
    process.kill(Number(/parent (\d+)/.exec(session.screen())?.[1]), 'SIGTERM')
    expect(await session.ended).toMatchObject({ code: 8 })
  })
})
