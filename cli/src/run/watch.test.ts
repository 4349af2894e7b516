/** `coffer run --watch`: the command restarts with new values, and keeps running whatever happens to the service. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { openShell, type Running } from '../../../test/cli.ts'
import { openGate } from '../../../test/gate.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { until } from '../../../test/wait.ts'
import { createOutput } from '../output/output.ts'
import { openTerminal } from '../output/terminal.ts'
import { watchSources } from './watch.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
})
beforeEach(() => running.write({ KEY: 'one', OTHER: 'same', PATH_NOTE: 'x' }))
afterAll(() => running.stop())

const watch = ['run', '--watch', '--watch-interval', '100ms']
const shows = (program: Running, text: string) =>
  until(() => program.out().includes(text) || undefined, 120_000, `the command prints ${text}`)
const says = (program: Running, text: string) =>
  until(() => program.err().includes(text) || undefined, 120_000, `coffer says ${text}`)

const server = `
  process.on('SIGTERM', () => setTimeout(() => { console.log('stopped', process.env.KEY); process.exit(0) }, 200))
  console.log('started', process.env.KEY)
  setInterval(() => {}, 1000)`

test('restarts once for several changes, after the clean-up, and names them without their values', async () => {
  const gate = await openGate(running.service.url)
  const env = { ...running.env, COFFER_URL: gate.url }
  const program = openShell(env).start([...watch, '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  // However slow the writes are, they are seen together.
  gate.mode = 'reset'
  await running.write({ KEY: 'secret-two' })
  await running.write({ KEY: 'secret-three', OTHER: 'changed' })
  gate.mode = 'pass'
  await shows(program, 'started secret-three')
  program.child.kill('SIGTERM')
  const { code, out, err } = await program.ended
  expect({ code, out }).toEqual({
    code: 0,
    out: 'started one\nstopped one\nstarted secret-three\nstopped secret-three\n',
  })
  expect(err).toBe('coffer: KEY, OTHER changed; restarting the command.\n')
})

test('changes of less than a second apart are one change', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const watching = new AbortController()
  onTestFinished(() => {
    watching.abort()
    vi.useRealTimers()
  })
  let values = { KEY: 'one' }
  const refresh = async () => ({ values, etag: undefined })
  const source = { url: '', workspace: undefined, project: undefined, environment: undefined, prefix: '', label: '' }
  const opened = { source, snapshot: await refresh(), cache: undefined, refresh }
  const watched = { opened, values }
  const flags = { json: false, quiet: true, verbose: false, 'no-input': true, 'no-color': true }
  const out = createOutput(openTerminal({}, flags), flags)
  const onChange = vi.fn()
  watchSources({ out }, [watched], { intervalMs: 1, signal: watching.signal, onChange })
  for (const KEY of ['two', 'three']) {
    values = { KEY }
    while (watched.values.KEY !== KEY) await sleep(1)
    vi.advanceTimersByTime(999)
    expect(onChange).not.toHaveBeenCalled()
  }
  vi.advanceTimersByTime(1)
  expect(onChange).toHaveBeenCalledOnce()
})

test('a command that does not end is killed after the grace period', async () => {
  const stubborn = `process.on('SIGTERM', () => console.log('ignored')); console.log('started', process.env.KEY); setInterval(() => {}, 1000)`
  const program = openShell(running.env).start([...watch, '--grace', '3s', '--', process.execPath, '-e', stubborn])
  await shows(program, 'started one')
  await running.write({ KEY: 'two' })
  await shows(program, 'started two')
  expect(program.out()).toBe('started one\nignored\nstarted two\n')
  program.child.kill('SIGINT')
  expect(await program.ended).toMatchObject({ signal: 'SIGINT' })
})

/** The shell ends at SIGTERM, and leaves its command behind. */
const inShell = ['--shell', '--', `'${process.execPath}' -e "${server.replace('200', '2000')}"; true`]

test('a command of a shell has ended before the next one starts', async () => {
  const program = openShell(running.env).start([...watch, '--grace', '60s', ...inShell])
  await shows(program, 'started one')
  await running.write({ KEY: 'two' })
  await shows(program, 'started two')
  expect(program.out()).toBe('started one\nstopped one\nstarted two\n')
  program.child.kill('SIGTERM')
  await program.ended
})

test('so it has in a terminal, where it has no group of its own', async () => {
  const session = openShell(running.env).terminal([...watch, '--grace', '60s', ...inShell])
  await session.see('started one')
  await running.write({ KEY: 'two' })
  await session.see('started two')
  expect(session.screen().match(/(started|stopped) \w+/g)).toEqual(['started one', 'stopped one', 'started two'])
  session.type('\u0003')
  await session.ended
})

test('what a shell leaves behind is killed after the grace period', async () => {
  const stubborn = `[ $KEY = one ] && trap '' TERM; echo started $KEY; while sleep 0.1; do echo alive $KEY; done`
  const program = openShell(running.env).start([...watch, '--grace', '1s', '--', 'sh', '-c', `(${stubborn}); true`])
  await shows(program, 'alive one')
  await running.write({ KEY: 'two' })
  await shows(program, 'alive two')
  const after = program.out().slice(program.out().indexOf('started two'))
  expect(after).not.toContain('alive one')
  program.child.kill('SIGTERM')
  await program.ended
})

test('changes of secrets that the command does not receive do not restart it', async () => {
  const program = openShell(running.env).start([...watch, '--only', 'KEY', '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  await running.write({ OTHER: 'new' })
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  await running.write({ KEY: 'two' })
  await shows(program, 'started two')
  program.child.kill('SIGTERM')
  expect((await program.ended).err).toBe('coffer: KEY changed; restarting the command.\n')
})

test('an outage keeps the command, and a change after it is seen', async () => {
  const gate = await openGate(running.service.url)
  const env = { ...running.env, COFFER_URL: gate.url }
  const program = openShell(env).start([...watch, '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  gate.mode = 'reset'
  const before = gate.requests
  await until(() => gate.requests > before + 1 || undefined, 120_000, 'the service is asked in vain')
  await running.write({ KEY: 'two' })
  gate.mode = 'pass'
  await shows(program, 'started two')
  program.child.kill('SIGTERM')
  expect(await program.ended).toMatchObject({ code: 0, err: 'coffer: KEY changed; restarting the command.\n' })
})

test.each([401, 403, 404])('%i ends the watching with one line, and keeps the command', async (status) => {
  const gate = await openGate(running.service.url)
  const env = { ...running.env, COFFER_URL: gate.url }
  const program = openShell(env).start([...watch, '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  gate.mode = status
  await says(program, 'no longer watched')
  const { requests } = gate
  await new Promise((resolve) => setTimeout(resolve, 400))
  expect(gate.requests).toBe(requests)
  program.child.kill('SIGTERM')
  const { code, out, err } = await program.ended
  expect({ code, out }).toEqual({ code: 0, out: 'started one\nstopped one\n' })
  expect(err.split('\n')).toHaveLength(2)
})

test('a value that no variable can hold is left out, with a line that says so', async () => {
  const program = openShell(running.env).start([...watch, '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  await running.write({ KEY: 'nul\0' })
  await says(program, 'its value contains a NUL')
  await shows(program, 'started undefined')
  program.child.kill('SIGTERM')
  await program.ended
})

test('with --strict, a change that cannot be passed on keeps the command as it is', async () => {
  const program = openShell(running.env).start([...watch, '--strict', '--', process.execPath, '-e', server])
  await shows(program, 'started one')
  await running.write({ KEY: 'nul\0' })
  await says(program, 'The command keeps the variables that it has.')
  await running.write({ KEY: 'three' })
  await shows(program, 'started three')
  program.child.kill('SIGTERM')
  expect((await program.ended).out).toBe('started one\nstopped one\nstarted three\nstopped three\n')
})

test('ends with the command', async () => {
  expect(await openShell(running.env).coffer([...watch, '--', 'sh', '-c', 'exit 5'])).toMatchObject({
    code: 5,
    err: '',
  })
})

test('a command that is told to end does not start again, however long it takes', async () => {
  const slow = `
    process.on('SIGTERM', () => { console.log('ending'); setTimeout(process.exit, 2500, 3) })
    console.log('started', process.env.KEY)
    setInterval(() => {}, 1000)`
  const program = openShell(running.env).start([...watch, '--', process.execPath, '-e', slow])
  await shows(program, 'started one')
  program.child.kill('SIGTERM')
  await shows(program, 'ending')
  await running.write({ KEY: 'two' })
  expect(await program.ended).toMatchObject({ code: 3, out: 'started one\nending\n', err: '' })
})

test.runIf(process.platform === 'linux')('a remark does not change how the command writes', async () => {
  const gate = await openGate(running.service.url)
  const print = 'while sleep 0.1; do grep flags /proc/self/fdinfo/2; done'
  const shell = openShell({ ...running.env, COFFER_URL: gate.url })
  const program = shell.start([...watch, '--', 'sh', '-c', print])
  await shows(program, 'flags')
  const before = program.out().split('\n')[0] ?? ''
  gate.mode = 403
  await says(program, 'no longer watched')
  const seen = program.out().length
  await until(() => program.out().length > seen + 2 * before.length || undefined, 120_000, 'the command writes again')
  program.child.kill('SIGTERM')
  expect(new Set((await program.ended).out.trim().split('\n'))).toEqual(new Set([before]))
})
