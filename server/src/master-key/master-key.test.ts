/** The master key from a value, a file or a command: unusable keys are refused, and no error or log shows one. */
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { key, load, refusalOf, spellings } from '../../../test/master-key.ts'
import type { MasterKeyOptions, MasterKeySource } from './master-key.ts'

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-master-key-'))
})
afterEach(() => rm(folder, { recursive: true }))

const wrongKeys: [string, string, string][] = [
  ['is empty', '', 'must be 32 bytes in base64 or hex'],
  ['is too short', randomBytes(31).toString('base64'), 'must be 32 bytes in base64 or hex'],
  ['is too long', randomBytes(33).toString('base64'), 'must be 32 bytes in base64 or hex'],
  ['is too short in hex', randomBytes(31).toString('hex'), 'must be 32 bytes in base64 or hex'],
  ['is a passphrase', 'correct horse battery staple', 'must be 32 bytes in base64 or hex'],
  ['has trailing text', `${key.toString('base64')} ${key.toString('base64')}`, 'must be 32 bytes in base64 or hex'],
  ['mixes alphabets', `${'+_'.repeat(21)}A=`, 'must be 32 bytes in base64 or hex'],
  ['is all zero', Buffer.alloc(32).toString('base64'), 'is a single repeated byte'],
  ['is all zero in hex', '0'.repeat(64), 'is a single repeated byte'],
  ['is a single repeated byte', Buffer.alloc(32, 0x61).toString('base64'), 'is a single repeated byte'],
]

test.each(wrongKeys)(
  'with keys in the database, the error says to restore the master key, never to create one, when it %s',
  async (_, value) => {
    const path = join(folder, 'master.key')
    await writeFile(path, value, { mode: 0o600 })
    const sources: MasterKeySource[] = [
      { kind: 'value', value },
      { kind: 'file', path },
      { kind: 'command', command: `cat ${path}` },
    ]
    for (const source of sources) {
      const message = await refusalOf(load(source, { mayCreate: false }))
      expect(message).toContain('restore the key that this database was created with')
      expect(message).not.toMatch(/openssl|random/)
    }
  },
)

describe('a value', () => {
  test.each([
    ['base64', key.toString('base64')],
    ['base64 without padding', key.toString('base64').replace('=', '')],
    ['base64url', key.toString('base64url')],
    ['hex', key.toString('hex')],
    ['upper-case hex', key.toString('hex').toUpperCase()],
    ['base64 with white space around it', ` ${key.toString('base64')}\n`],
  ])('is read as %s', async (_, value) => {
    expect(await load({ kind: 'value', value }, { mayCreate: false })).toEqual(Uint8Array.from(key))
  })

  test.each(wrongKeys)('is refused when it %s', async (_, value, reason) => {
    const message = await refusalOf(load({ kind: 'value', value }))
    expect(message).toContain('COFFER_MASTER_KEY')
    expect(message).toContain(reason)
  })
})

describe('a file', () => {
  const path = () => join(folder, 'master.key')
  const fromFile = (options: Partial<MasterKeyOptions> = {}) => load({ kind: 'file', path: path() }, options)

  test('is created on the first start, readable by its owner only, and read on the next', async () => {
    const first = await fromFile()
    expect((await stat(path())).mode & 0o777).toBe(0o600)
    expect(await readFile(path(), 'utf8')).toBe(`${Buffer.from(first).toString('base64')}\n`)
    expect(await readdir(folder)).toEqual(['master.key'])
    expect(await fromFile({ mayCreate: false })).toEqual(first)
    expect(await fromFile()).toEqual(first)
  })

  test('is created once when many starts run concurrently', async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, () => fromFile()))
    expect(new Set(keys.map((each) => Buffer.from(each).toString('hex'))).size).toBe(1)
    expect(await readdir(folder)).toEqual(['master.key'])
  })

  test('is created once by several processes', async () => {
    const runs = await Promise.all(Array.from({ length: 4 }, () => runInProcess({ kind: 'file', path: path() })))
    expect(new Set(runs.map(({ output }) => output)).size).toBe(1)
    expect(runs[0]?.output).toBe(`key ${(await readFile(path(), 'utf8')).trim()}\n`)
  })

  test('is not created when the database already has keys', async () => {
    expect(await refusalOf(fromFile({ mayCreate: false }))).toContain('is missing; restore it')
    expect(await readdir(folder)).toEqual([])
  })

  test.each(['640', '604', '620', '602', '610', '601', '644', '666'])('is refused with mode %s', async (mode) => {
    await writeFile(path(), spellings.slice(0, 1))
    await chmod(path(), Number.parseInt(mode, 8))
    expect(await refusalOf(fromFile())).toContain('run "chmod 600" on it')
  })

  test('may be read-only and may be a symbolic link', async () => {
    await writeFile(join(folder, 'elsewhere'), spellings.slice(2), { mode: 0o400 })
    await symlink(join(folder, 'elsewhere'), path())
    expect(await fromFile({ mayCreate: false })).toEqual(Uint8Array.from(key))
  })

  test.each(wrongKeys)('is refused when its content %s', async (_, content, reason) => {
    await writeFile(path(), content, { mode: 0o600 })
    expect(await refusalOf(fromFile())).toContain(reason)
    expect(await readFile(path(), 'utf8')).toBe(content)
  })

  test('is refused when it is far too large, a folder, a pipe, a dangling link, or in a missing folder', async () => {
    await writeFile(path(), 'x'.repeat(100_000), { mode: 0o600 })
    expect(await refusalOf(fromFile())).toContain('must be 32 bytes')
    await symlink(join(folder, 'nowhere'), join(folder, 'dangling'))
    expect(await refusalOf(load({ kind: 'file', path: join(folder, 'dangling') }))).toContain('could not be created')
    expect(await refusalOf(load({ kind: 'file', path: join(folder, 'none', 'key') }))).toContain('(ENOENT)')
    expect(await refusalOf(load({ kind: 'file', path: folder }))).toContain('must be a regular file')
    execFileSync('mkfifo', ['-m', '600', join(folder, 'pipe')])
    expect(await refusalOf(load({ kind: 'file', path: join(folder, 'pipe') }))).toContain('must be a regular file')
    expect((await readdir(folder)).sort()).toEqual(['dangling', 'master.key', 'pipe'])
  })
})

describe('a command', () => {
  test.each([
    ['base64', key.toString('base64')],
    ['base64url', key.toString('base64url')],
    ['hex', key.toString('hex')],
  ])('may print the key as %s', async (_, spelling) => {
    const command = `echo noise >&2; printf '%s\\n' "$SPELLING"`
    const env = { ...process.env, SPELLING: spelling }
    expect(await load({ kind: 'command', command }, { env, mayCreate: false })).toEqual(Uint8Array.from(key))
  })

  test.each([
    ['fails', `echo ${spellings[0]}; exit 3`, 'failed with status 3'],
    ['does not exist', 'coffer-no-such-command', 'failed with status 127'],
    ['is killed', 'kill -9 $$', 'failed with SIGKILL'],
    ['never ends', `echo ${spellings[0]}; sleep 100`, 'did not finish within 0.3 seconds'],
    [
      'leaves a background process that never ends',
      `echo ${spellings[0]}; sleep 100 & exit 0`,
      'did not finish within 0.3 seconds',
    ],
    ['never stops printing', `yes ${spellings[0]}`, 'printed more than 1024 bytes'],
    ['prints the key and more', `echo key: ${spellings[0]}`, 'must be 32 bytes'],
    ['prints nothing', 'true', 'must be 32 bytes'],
    ['prints the key on stderr', `echo ${spellings[0]} >&2`, 'must be 32 bytes'],
    ['prints a key of zeros', `echo ${'0'.repeat(64)}`, 'is a single repeated byte'],
  ])('is refused when it %s', async (_, command, reason) => {
    const isEndless = reason.startsWith('did not finish')
    const message = await refusalOf(load({ kind: 'command', command }, isEndless ? { commandTimeoutMs: 300 } : {}))
    expect(message).toContain(reason)
    expect(message).not.toContain(command)
  })

  test('is killed together with its child processes', async () => {
    const [trigger, reaction] = [join(folder, 'trigger'), join(folder, 'reaction')]
    const command = `(until [ -e ${trigger} ]; do sleep 0.05; done; touch ${reaction}) & sleep 100`
    await refusalOf(load({ kind: 'command', command }, { commandTimeoutMs: 100 }))
    await writeFile(trigger, '')
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(await readdir(folder)).toEqual(['trigger'])
  })

  test('that fails never reveals the key in the output of the process', async () => {
    for (const status of [0, 1]) {
      const command = `echo ${spellings[0]} ${spellings[2]}; echo ${spellings[1]} ${spellings[2]} >&2; exit ${status}`
      const { output } = await runInProcess({ kind: 'command', command })
      expect(output).toContain('MasterKeyError: The master key')
      for (const spelling of spellings) expect(output).not.toContain(spelling)
    }
  })
})

/** Loads the key in a child process and returns its output, stdout and stderr. */
async function runInProcess(source: MasterKeySource): Promise<{ output: string }> {
  const module = new URL('./master-key.ts', import.meta.url).href
  const script = `
    const { loadMasterKey } = await import(${JSON.stringify(module)})
    const options = { wrapped: undefined, outbound: undefined, env: process.env, mayCreate: true }
    try {
      const key = await loadMasterKey(JSON.parse(process.env.SOURCE), options)
      console.log('key', Buffer.from(key).toString('base64'))
    } catch (error) {
      console.error(error)
    }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: process.env.PATH, SOURCE: JSON.stringify(source) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  }
  await new Promise((resolve) => child.on('close', resolve))
  return { output }
}
