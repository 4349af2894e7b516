/** `coffer secrets set` and `delete` against the real service. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../../test/sdk-service.ts'

let running: SdkService
const project = '/v1/workspace/main/project/api'
const canary = 'c4n4ry-value'

beforeAll(async () => {
  running = await startSdkService()
  const { environmentId, session, service } = running
  await service.call('PUT', `${project}/environment/${environmentId}`, {
    token: session,
    body: { hasPersonalOverrides: true },
  })
})
afterAll(() => running.stop())

const shellOf = (env: Record<string, string | undefined> = {}) =>
  openShell({ ...running.env, COFFER_TOKEN: running.session, ...env })

type Row = { value: string; isPersonal: boolean; version: number }

async function rowsOf(key: string, environment = 'development'): Promise<Row[]> {
  const { body } = await running.service.call<{ values?: Row[] }>(
    'GET',
    `${project}/secret/${key}?environmentId=${environment}`,
    { token: running.session },
  )
  return body.values ?? []
}

const storedValue = async (key: string, environment?: string) => (await rowsOf(key, environment))[0]?.value

const revisionOf = async () => {
  const { body } = await running.service.call<{ revision: number }[]>(
    'GET',
    `${project}/environment/${running.environmentId}/revision?limit=1`,
    { token: running.session },
  )
  return body[0]
}

describe('set', () => {
  test('writes all keys as one revision and prints names and versions', async () => {
    const before = (await revisionOf())?.revision ?? 0
    const args = ['secrets', 'set', `A=${canary}`, 'B=a=b', 'EMPTY=', '-m', 'first', '--note', 'ours']
    const { code, out, err } = await shellOf().coffer(args)
    expect({ code, out }).toEqual({
      code: 0,
      out: 'A\tdevelopment\tcreated\t1\nB\tdevelopment\tcreated\t1\nEMPTY\tdevelopment\tcreated\t1\n',
    })
    expect(err).toBe(
      'A value in the arguments can be seen by others on this machine and stays in the history of the shell.\n' +
        'try: leave out =VALUE, or use --stdin\n',
    )
    expect([await storedValue('A'), await storedValue('B'), await storedValue('EMPTY')]).toEqual([canary, 'a=b', ''])
    expect(await revisionOf()).toMatchObject({ revision: before + 1, message: 'first' })
    const quiet = await shellOf().coffer(['secrets', 'set', `A=${canary}`, '-q'])
    expect(quiet).toMatchObject({ code: 0, out: 'A\tdevelopment\tunchanged\t1\n', err: '' })
  })

  test('takes values from stdin and files byte for byte, except the line break of echo', async () => {
    const shell = shellOf()
    const pem = '-----BEGIN-----\r\nabc\n-----END-----\n'
    writeFileSync(join(shell.cwd, 'key.pem'), pem)
    await shell.coffer(['secrets', 'set', 'LINE', '--stdin'], { input: `${canary}\n` })
    await shell.coffer(['secrets', 'set', 'LINES', '--stdin', '--from-file', 'PEM=key.pem'], { input: 'a\nb\n' })
    expect([await storedValue('LINE'), await storedValue('LINES'), await storedValue('PEM')]).toEqual([
      canary,
      'a\nb\n',
      pem,
    ])
  })

  test('names the key of a value that is too large, and writes nothing', async () => {
    const shell = shellOf()
    const { code, out, err } = await shell.coffer(['secrets', 'set', 'SMALL=', 'LARGE', '--stdin'], {
      input: canary.repeat(10_000),
    })
    expect({ code, out, err }).toEqual({
      code: 1,
      out: '',
      err: 'coffer: The value of LARGE must have 65536 characters or fewer.\n',
    })
    expect((await shell.coffer(['secrets', 'get', 'SMALL'])).code).toBe(5)
  })

  test('writes several environments in one step', async () => {
    const shell = shellOf()
    const { code, out } = await shell.coffer(['secrets', 'set', 'MANY=1', '-e', 'staging,production', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ success: true, results: [{ key: 'MANY' }, { key: 'MANY' }] })
    expect([await storedValue('MANY', 'staging'), await storedValue('MANY', 'production')]).toEqual(['1', '1'])
    const half = await shell.coffer(['secrets', 'set', 'HALF=1', '-e', 'staging,nowhere'])
    expect(half.code).toBe(5)
    expect(await rowsOf('HALF', 'staging')).toEqual([])
  })

  test('asks for a value that is not given, and never shows it', async () => {
    const session = shellOf().terminal(['secrets', 'set', 'ASKED', 'GIVEN=x'])
    await session.see('Value of ASKED')
    session.type(`${canary}\r`)
    await session.see('created')
    expect((await session.ended).code).toBe(0)
    expect(session.screen()).not.toContain(canary)
    expect(await storedValue('ASKED')).toBe(canary)
  })

  test('a pasted text of several lines is refused: the question would take one line of it', async () => {
    const session = shellOf().terminal(['secrets', 'set', 'PASTED'])
    await session.see('Value of PASTED')
    session.type(`-----BEGIN-----\r${canary}\r-----END-----\r`)
    await session.see('The answer is one line, and you pasted several.')
    await session.see('try: coffer secrets set PASTED --stdin')
    expect((await session.ended).code).toBe(2)
    expect((await shellOf().coffer(['secrets', 'get', 'PASTED'])).code).toBe(5)
  })

  test('removes values from the list of processes', async () => {
    const running = shellOf().terminal(['secrets', 'set', `HIDDEN=${canary}`, 'LATER'])
    await running.see('Value of LATER')
    const commands = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        } catch {
          return ''
        }
      })
    // The shell that `script` starts has the arguments too; the program itself has not.
    expect(commands.filter((line) => line.includes(`HIDDEN=${canary}`) && !/script|sh\0-c/.test(line))).toEqual([])
    running.type('\u0003')
    expect(await running.ended).toMatchObject({ code: 130 })
    expect(await rowsOf('HIDDEN')).toEqual([])
  })

  test('keeps to the version that was read', async () => {
    const shell = shellOf()
    const created = await shell.coffer(['secrets', 'set', 'GUARDED=1', '--if-version', '0'])
    expect(created.code).toBe(0)
    const again = await shell.coffer(['secrets', 'set', `GUARDED=${canary}`, '--if-version', '0'])
    expect(again).toMatchObject({ code: 6, out: '' })
    expect(again.err).toContain('coffer: GUARDED is at version 1 now: read it again.\n')
    expect((await shell.coffer(['secrets', 'set', 'GUARDED=2', '--if-version', '1'])).code).toBe(0)
    expect(await storedValue('GUARDED')).toBe('2')
  })

  test('writes a personal value beside the shared one', async () => {
    const shell = shellOf()
    await shell.coffer(['secrets', 'set', 'OWN=shared'])
    const { out } = await shell.coffer(['secrets', 'set', 'OWN=mine', '--personal'])
    expect(out).toBe('OWN\tdevelopment\tcreated\tpersonal\n')
    expect((await shell.coffer(['secrets', 'get', 'OWN'])).out).toBe('mine\n')
    expect((await shell.coffer(['secrets', 'list', '--filter', 'OWN'])).out).toContain('OWN\tpersonal\t')
    expect((await shellOf({ COFFER_TOKEN: running.token }).coffer(['secrets', 'get', 'OWN'])).out).toBe('shared\n')
    expect((await shell.coffer(['secrets', 'delete', 'OWN', '--personal', '-y'])).code).toBe(0)
    expect((await shell.coffer(['secrets', 'get', 'OWN'])).out).toBe('shared\n')
  })

  test.each([
    { args: [], code: 2, err: 'A KEY is missing.\ntry: coffer secrets set KEY' },
    {
      args: ['A', 'B', '--stdin'],
      code: 2,
      err: '--stdin needs one KEY without =VALUE.\ntry: coffer secrets set KEY --stdin',
    },
    { args: ['A'], code: 2, err: 'There is nobody to ask here: Value of A\ntry: coffer secrets set A --stdin' },
    {
      args: ['A', '--stdin'],
      code: 2,
      err: 'There is nothing on stdin.\ntry: coffer secrets set A= for an empty value',
    },
    { args: ['A=1', 'A=2'], code: 2, err: 'A KEY is given twice.' },
    { args: [`bad name ${canary}`], code: 2, err: 'The name of a secret has 1 to 255 letters, digits, _ and -.' },
    { args: [`=${canary}`], code: 2, err: 'The name of a secret has 1 to 255 letters, digits, _ and -.' },
    { args: ['--from-file', 'A=/nonexistent'], code: 2, err: '/nonexistent cannot be read (ENOENT).' },
    { args: ['--from-file', 'A'], code: 2, err: '--from-file needs KEY=PATH.\ntry: --from-file KEY=PATH' },
    { args: ['A=', 'B=', '--if-version', '1'], code: 2, err: '--if-version takes one KEY and one environment.' },
    {
      args: ['A=', '-e', 'nowhere'],
      code: 5,
      err: 'There is no environment nowhere in the project api, or this credential does not reach it.\ntry: one of: development, staging, production',
    },
    {
      args: ['PORT', '50017'],
      code: 2,
      err: 'The value of PORT follows after =, without a space.\ntry: coffer secrets set PORT=VALUE',
    },
    { args: ['A=', '-e', ''], code: 2, err: '--environment is empty.\ntry: --environment=NAME' },
    { args: ['A=', '-e', 'development,'], code: 2, err: '--environment must be a list such as a,b.' },
  ])('refuses $args', async ({ args, code, err }) => {
    expect(await shellOf().coffer(['secrets', 'set', ...args])).toMatchObject({
      code,
      out: '',
      err: `coffer: ${err}\n`,
    })
  })

  test('a read-only token is refused, and the value is in no message', async () => {
    const shell = shellOf({ COFFER_TOKEN: running.token })
    const { code, out, err } = await shell.coffer(['secrets', 'set', `A=${canary}-new`, '-v'])
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(err).not.toContain(canary)
    expect(await storedValue('A')).toBe(canary)
  })

  test('refuses a value that is too large or no text', async () => {
    const shell = shellOf()
    writeFileSync(join(shell.cwd, 'large'), 'x'.repeat(64 * 1024 + 1))
    writeFileSync(join(shell.cwd, 'binary'), Buffer.from([0xff, 0xfe, 0]))
    const large = await shell.coffer(['secrets', 'set', '--from-file', 'A=large'])
    expect(large.code).toBe(1)
    expect(large.err).toMatch(/^coffer: .*64 KiB|value/)
    expect(await shell.coffer(['secrets', 'set', '--from-file', 'A=binary'])).toMatchObject({
      code: 2,
      err: 'coffer: binary is not UTF-8 text.\ntry: base64 it first\n',
    })
  })
})

describe('delete', () => {
  beforeAll(() => running.write({ D1: canary, D2: canary, D3: canary, D4: canary, D5: canary }))

  test('deletes all keys or none', async () => {
    const shell = shellOf()
    const missing = await shell.coffer(['secrets', 'delete', 'D1', 'ABSENT', '-y'])
    expect(missing).toMatchObject({ code: 5, out: '', err: 'coffer: ABSENT has no value in development.\n' })
    expect(await rowsOf('D1')).toHaveLength(1)
    const { code, out, err } = await shell.coffer(['secrets', 'delete', 'D1', 'D2', '-y', '-m', 'gone'])
    expect({ code, out, err }).toEqual({
      code: 0,
      out: 'D1\tdevelopment\tdeleted\t2\nD2\tdevelopment\tdeleted\t2\n',
      err: '',
    })
    expect(await revisionOf()).toMatchObject({ message: 'gone' })
    const back = await shell.coffer(['restore', 'D1@1'])
    expect(back.err).toContain('Bring back version 1 of D1 in development?')
  })

  test('looks for the secrets before it asks', async () => {
    expect(await shellOf().coffer(['secrets', 'delete', 'D3', 'ABSENT'])).toMatchObject({
      code: 5,
      err: 'coffer: There is no secret ABSENT in development.\ntry: coffer secrets list\n',
    })
  })

  test('asks on a terminal, and needs --yes without one', async () => {
    const shell = shellOf()
    expect(await shell.coffer(['secrets', 'delete', 'D3'])).toMatchObject({
      code: 2,
      err: 'coffer: There is nobody to ask here: Delete D3 in development of api?\ntry: --yes\n',
    })
    const refused = shell.terminal(['secrets', 'delete', 'D3'])
    await refused.see('Delete D3 in development of api?')
    refused.type('n')
    expect(await refused.ended).toMatchObject({ code: 130 })
    expect(await rowsOf('D3')).toHaveLength(1)
    const agreed = shell.terminal(['secrets', 'delete', 'D3'])
    await agreed.see('Delete D3 in development of api?')
    agreed.type('y')
    expect(await agreed.ended).toMatchObject({ code: 0 })
    expect(await rowsOf('D3')).toEqual([])
  })

  test('moves the whole secret to the trash with --all-environments', async () => {
    const shell = shellOf()
    await shell.coffer(['secrets', 'set', 'D4=x', '-e', 'staging'])
    const missing = await shell.coffer(['secrets', 'delete', 'D4', 'ABSENT', '--all-environments', '-y'])
    expect(missing).toMatchObject({
      code: 5,
      err: 'coffer: There is no secret ABSENT in the project.\ntry: coffer secrets list\n',
    })
    expect(await rowsOf('D4', 'staging')).toHaveLength(1)
    const { code, out } = await shell.coffer(['secrets', 'delete', 'D4', '--all-environments', '-y'])
    expect({ code, out }).toEqual({ code: 0, out: 'D4\tdeleted\n' })
    expect(await rowsOf('D4', 'staging')).toEqual([])
  })

  test.each([
    { args: ['D5', '--all-environments', '-m', 'x'], err: '--all-environments takes no --message.' },
    { args: ['D5', '--all-environments', '--personal'], err: 'Give --personal or --all-environments.' },
    { args: ['', '-y'], err: 'The name of a secret has 1 to 255 letters, digits, _ and -.' },
  ])('refuses $args', async ({ args, err }) => {
    expect(await shellOf().coffer(['secrets', 'delete', ...args])).toMatchObject({
      code: 2,
      out: '',
      err: `coffer: ${err}\n`,
    })
  })

  test('a read-only token is refused', async () => {
    const shell = shellOf({ COFFER_TOKEN: running.token })
    expect(await shell.coffer(['secrets', 'delete', 'D5', '-y'])).toMatchObject({ code: 4, out: '' })
    expect(await shell.coffer(['secrets', 'delete', 'D5', '-y', '--all-environments'])).toMatchObject({ code: 4 })
    expect(await rowsOf('D5')).toHaveLength(1)
  })
})
