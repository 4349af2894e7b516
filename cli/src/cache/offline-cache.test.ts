/** The offline cache of `coffer run`: when it is used, when it must not be, and what it reveals. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { type Gate, openGate } from '../../../test/gate.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { until } from '../../../test/wait.ts'
import { wipeCache } from './offline-cache.ts'

let running: SdkService
const canary = 'canary-2f9c1b7e55'
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ KEY: canary })
})
afterAll(() => running.stop())

type Case = { readonly shell: Shell; readonly gate: Gate; readonly file: () => string }

/** With `login`, the session of a user instead of a token. */
async function open({ login = false } = {}): Promise<Case> {
  const gate = await openGate(running.service.url)
  const shell = openShell({ ...running.env, COFFER_URL: gate.url, ...(login && { COFFER_TOKEN: undefined }) })
  if (login) {
    const config = join(shell.home, '.config/coffer')
    mkdirSync(config, { recursive: true, mode: 0o700 })
    const entry = { email: 'a@example.com', userId: 'user-1', store: 'file', session: running.session }
    writeFileSync(join(config, 'logins.json'), JSON.stringify({ byUrl: { [gate.url]: entry }, lastUrl: gate.url }), {
      mode: 0o600,
    })
  }
  const file = () => {
    const folder = join(shell.home, '.cache/coffer')
    const [name = 'none', ...others] = existsSync(folder) ? readdirSync(folder) : []
    expect(others).toEqual([])
    return join(folder, name)
  }
  return { shell, gate, file }
}

const print = ['--', 'sh', '-c', 'printf %s "$KEY"']
const works = { code: 0, out: canary }
const fails = { code: 125, out: '' }

test('every run asks with the ETag, and 304 is answered from the cache', async () => {
  const { shell, gate, file } = await open()
  expect(await shell.coffer(['run', ...print])).toMatchObject({ ...works, err: '' })
  expect(await shell.coffer(['run', ...print])).toMatchObject({ ...works, err: '' })
  expect(gate.passed.map(({ status }) => status)).toEqual([200, 304])
  expect(gate.passed[0]?.ifNoneMatch).toBeUndefined()
  expect(statSync(file()).mode & 0o777).toBe(0o600)
  expect(statSync(join(file(), '..')).mode & 0o777).toBe(0o700)
})

describe.each([{ login: false }, { login: true }])('in an outage, with login: $login', (kind) => {
  test.each(['reset', 'hang', 502, 503, 504, 'refuse'] as const)(
    '%s: the cache is used after one attempt',
    async (mode) => {
      const { shell, gate } = await open(kind)
      await shell.coffer(['run', ...print])
      if (mode === 'refuse') await gate.close()
      else gate.mode = mode
      const { err, ...ended } = await shell.coffer(['run', ...print])
      expect(ended).toMatchObject(works)
      expect(err).toMatch(/^coffer: .* Using the secrets of main\/api\/development from \d+ (s|min) ago\.\n$/)
      if (mode !== 'refuse') expect(gate.requests).toBe(2)
    },
  )
})

test.each([401, 403, 404])('%i deletes the cache, and the command does not start', async (status) => {
  const { shell, gate, file } = await open()
  await shell.coffer(['run', ...print])
  await shell.coffer(['run', '--on-unresolved', 'keep', ...print])
  gate.mode = status
  expect(await shell.coffer(['run', ...print])).toMatchObject(fails)
  expect(existsSync(file())).toBe(false)
  gate.mode = 503
  expect(await shell.coffer(['run', '--offline', ...print])).toMatchObject(fails)
})

test.each([400, 500])('%i is no outage, and the cache is kept', async (status) => {
  const { shell, gate, file } = await open()
  await shell.coffer(['run', ...print])
  gate.mode = status
  expect(await shell.coffer(['run', ...print])).toMatchObject(fails)
  expect(existsSync(file())).toBe(true)
})

describe('--offline', () => {
  test('sends nothing, and says how old the secrets are', async () => {
    const { shell, gate } = await open()
    expect(await shell.coffer(['run', '--offline', ...print])).toMatchObject({
      ...fails,
      err: 'coffer: There is no offline cache of main/api/development.\ntry: the same command without --offline\n',
    })
    await shell.coffer(['run', ...print])
    const before = gate.requests
    for (const [flags, env] of [
      [['--offline'], {}],
      [[], { COFFER_OFFLINE: '1' }],
    ] as const) {
      const { err, ...ended } = await shell.coffer(['run', ...flags, ...print], { env })
      expect(ended).toMatchObject(works)
      expect(err).toMatch(/^coffer: offline; the secrets of main\/api\/development are \d+ (s|min) old\.\n$/)
    }
    expect(gate.requests).toBe(before)
  })

  test('refuses a cache that is too old', async () => {
    const { shell, gate } = await open()
    await shell.coffer(['run', ...print])
    const later = { env: shiftedClock(25 * 3_600_000) }
    expect(await shell.coffer(['run', '--offline', ...print], later)).toMatchObject({
      ...fails,
      err: expect.stringContaining('is 25 h old'),
    })
    expect(await shell.coffer(['run', '--offline', '--cache-max-age', '2d', ...print], later)).toMatchObject(works)
    gate.mode = 'reset'
    expect(await shell.coffer(['run', ...print], later)).toMatchObject(fails)
  })
})

/** Moves the clock of every Node program that is started with it. */
const shiftedClock = (byMs: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,const{now}=Date;Date.now=()=>now()+(${byMs})`,
})

describe.each([{ login: false }, { login: true }])('no cache, with login: $login', (kind) => {
  test.each<[string, (opened: Case) => Record<string, string> | undefined]>([
    ['a flipped bit', ({ file }) => flip(file(), 60, 1)],
    ['a flipped bit of the nonce', ({ file }) => flip(file(), 3, 128)],
    ['a short file', ({ file }) => void writeFileSync(file(), readFileSync(file()).subarray(0, 20))],
    ['a file of another format', ({ file }) => flip(file(), 0, 8)],
    ['a file that others can read', ({ file }) => void chmodSync(file(), 0o644)],
    ['a time in the future', () => shiftedClock(-3_600_000)],
    ['another key', otherKey],
  ])('%s', async (_, damage) => {
    const opened = await open(kind)
    await opened.shell.coffer(['run', ...print])
    expect(await opened.shell.coffer(['run', '--offline', ...print])).toMatchObject(works)
    const env = damage(opened) ?? {}
    expect(await opened.shell.coffer(['run', '--offline', ...print], { env })).toMatchObject({
      ...fails,
      err: expect.stringContaining('There is no offline cache'),
    })
    // The next read replaces it.
    const right = { ...env, COFFER_TOKEN: kind.login ? undefined : running.token }
    expect(await opened.shell.coffer(['run', ...print], { env: right })).toMatchObject({ ...works, err: '' })
  })

  function otherKey({ shell }: Case) {
    if (!kind.login) return { COFFER_TOKEN: 'coffer_live_another' }
    writeFileSync(join(shell.home, '.config/coffer/key'), Buffer.alloc(32, 7))
    return undefined
  }
})

function flip(path: string, at: number, bits: number): undefined {
  const bytes = readFileSync(path)
  bytes[at] = (bytes[at] ?? 0) ^ bits
  writeFileSync(path, bytes)
}

test('a file of one environment, user or service does not stand in for another', async () => {
  const { shell, file } = await open()
  await shell.coffer(['run', ...print])
  const kept = readFileSync(file())
  const folder = join(file(), '..')
  rmSync(file())
  await shell.coffer(['run', '--on-unresolved', 'keep', ...print])
  // The name of the other file with the content of this one: decrypted by the same key, but for another place.
  writeFileSync(file(), kept)
  expect(readdirSync(folder)).toHaveLength(1)
  expect(await shell.coffer(['run', '--offline', '--on-unresolved', 'keep', ...print])).toMatchObject(fails)
})

test.runIf(process.getuid?.() === 0)('a file of another user is no cache', async () => {
  const { shell, file } = await open()
  await shell.coffer(['run', ...print])
  chownSync(file(), 65534, 65534)
  expect(await shell.coffer(['run', '--offline', ...print])).toMatchObject(fails)
})

test('--no-cache, COFFER_CACHE=off and CI keep nothing, unless COFFER_CACHE=on asks for it', async () => {
  const { shell, gate, file } = await open()
  const runs = [
    { flags: ['--no-cache'], env: {} },
    { flags: [], env: { COFFER_CACHE: 'off' } },
    { flags: [], env: { CI: 'true' } },
  ]
  for (const { flags, env } of runs) {
    expect(await shell.coffer(['run', ...flags, ...print], { env })).toMatchObject({ ...works, err: '' })
    expect(existsSync(file())).toBe(false)
  }
  expect(await shell.coffer(['run', '--no-cache', '--offline', ...print])).toMatchObject(fails)
  await shell.coffer(['run', ...print], { env: { CI: 'true', COFFER_CACHE: 'on' } })
  expect(existsSync(file())).toBe(true)
  gate.mode = 503
  expect(await shell.coffer(['run', '--no-cache', ...print])).toMatchObject(fails)
})

test('wiping removes the values and the key', async () => {
  const { shell, file } = await open({ login: true })
  await shell.coffer(['run', ...print])
  expect(existsSync(join(shell.home, '.config/coffer/key'))).toBe(true)
  await wipeCache({ HOME: shell.home })
  expect(existsSync(join(file(), '..'))).toBe(false)
  expect(existsSync(join(shell.home, '.config/coffer/key'))).toBe(false)
})

test('no value is in a file, in the arguments of a process, or in our own environment', async () => {
  const { shell } = await open({ login: true })
  const temporary = mkdtempSync(join(tmpdir(), 'coffer-canary-'))
  onTestFinished(() => rmSync(temporary, { recursive: true }))
  const flags = ['--redact', '--watch', '--watch-interval', '100ms']
  const program = shell.start(['run', ...flags, '--', 'sh', '-c', 'echo "got $KEY"; exec sleep 600'], {
    env: { TMPDIR: temporary },
  })
  await until(() => program.out().endsWith('\n') || undefined, 120_000, 'the command runs')
  expect(program.out()).toBe('got ***\n')
  const spellings = [canary, Buffer.from(canary).toString('base64').slice(0, 20), Buffer.from(canary).toString('hex')]
  for (const folder of [shell.home, shell.cwd, temporary]) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const content = readFileSync(join(entry.parentPath, entry.name), 'latin1')
      for (const text of spellings) expect(content.includes(text), entry.name).toBe(false)
    }
  }
  expect(existsSync(join(shell.home, '.cache/coffer'))).toBe(true)
  expect(execFileSync('ps', ['-eo', 'args', '--no-headers'], { encoding: 'latin1' })).not.toContain(canary)
  expect(readFileSync(`/proc/${program.child.pid}/environ`, 'latin1')).not.toContain(canary)
  program.child.kill('SIGTERM')
  expect((await program.ended).err).toBe('')
})
