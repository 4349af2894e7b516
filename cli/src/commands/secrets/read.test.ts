/** `coffer secrets list` and `get` against the real service. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../../test/sdk-service.ts'

let running: SdkService
const project = '/v1/workspace/main/project/api'

async function post(path: string, body: unknown, method: 'POST' | 'PUT' = 'POST'): Promise<void> {
  const { status, text } = await running.service.call(method, `${project}/${path}`, { token: running.session, body })
  expect(status, text).toBeLessThan(300)
}

beforeAll(async () => {
  running = await startSdkService()
  await running.write({
    HOST: 'db.example.com',
    URL: `postgres://\${HOST}/app`,
    BROKEN: `a \${ABSENT} b`,
    STEER: 'a\u001b[2Jb\tc\nd\r\u202e é 漢字',
    EMPTY: '',
  })
  await running.write({ HOST: 'db2.example.com' })
  await post('secret', {
    environments: ['staging'],
    secrets: [{ key: 'HOST', value: 'staging', note: 'bad\u001b[31m note\nof two lines' }],
  })
})
afterAll(() => running.stop())

const shellOf = (env: Record<string, string | undefined> = {}) => openShell({ ...running.env, ...env })

describe('list', () => {
  test('shows names, versions, times and notes of the environment, without reading a value', async () => {
    const views = () =>
      running.service.call<unknown[]>('GET', '/v1/workspace/main/audit?action=VIEW', { token: running.session })
    const before = (await views()).body.length
    const { code, out, err } = await shellOf().coffer(['secrets', 'list'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const rows = out
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t'))
    expect(rows.map(([name, version]) => [name, version])).toEqual([
      ['BROKEN', '1'],
      ['EMPTY', '1'],
      ['HOST', '2'],
      ['STEER', '1'],
      ['URL', '1'],
    ])
    expect(rows[2]?.[2]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    expect(rows[2]?.[3]).toBe('bad\u001b[31m note\\nof two lines')
    expect((await views()).body.length).toBe(before)
  })

  test('shows where each secret has a value', async () => {
    const shell = shellOf()
    const { out } = await shell.coffer(['secrets', 'ls', '--all-environments', '--filter', 'host'])
    expect(out.split('\t').slice(0, 2)).toEqual(['HOST', 'development, staging'])
    const both = await shell.coffer(['secrets', 'ls', '-e', 'staging,development', '--filter', 'HOST'])
    expect(both.out.split('\t').slice(0, 2)).toEqual(['HOST', 'staging, development'])
  })

  test('finds what an environment lacks', async () => {
    const { out } = await shellOf().coffer(['secrets', 'list', '--missing-in', 'staging'])
    expect(out.split('\n').map((line) => line.split('\t')[0])).toEqual(['BROKEN', 'EMPTY', 'STEER', 'URL', ''])
  })

  test('shows resolved values when asked, and names what cannot be resolved', async () => {
    const { out, err } = await shellOf().coffer(['secrets', 'list', '--values'])
    expect(out).toContain('URL\tpostgres://db2.example.com/app\t')
    expect(err).toBe(`BROKEN: refers to ABSENT, which cannot be resolved.\n`)
  })

  test('prints the objects of the API', async () => {
    const { out } = await shellOf().coffer(['secrets', 'list', '--json'])
    const secrets = JSON.parse(out)
    expect(secrets).toHaveLength(5)
    expect(secrets[2]).toMatchObject({ name: 'HOST', values: [{ environmentId: running.environmentId, version: 2 }] })
    expect(out).not.toContain('db2.example.com')
  })

  test('no note or value steers the terminal', async () => {
    const session = shellOf().terminal(['secrets', 'list', '--values', '--all-environments'])
    const { out, code } = await session.ended
    expect(code).toBe(0)
    expect(session.screen()).toContain('NAME')
    expect(session.screen()).toContain('bad\\u001b[31m note\\nof two lines')
    expect(session.screen()).toContain('a\\u001b[2Jb\\tc\\nd\\u000d\\u202e é 漢字')
    expect(out).not.toContain('\u001b[31m')
    expect(out).not.toContain('\u001b[2J')
  })

  test.each([
    {
      args: ['-e', 'nowhere'],
      code: 5,
      err: 'There is no environment nowhere in the project api, or this credential does not reach it.\ntry: one of: development, staging, production',
    },
    {
      args: ['--missing-in', 'nowhere'],
      code: 5,
      err: 'There is no environment nowhere in the project api, or this credential does not reach it.\ntry: one of: development, staging, production',
    },
    {
      args: ['-p', 'nowhere'],
      code: 5,
      err: 'There is no project nowhere in the workspace main that you may see.\ntry: one of: api',
    },
    {
      args: ['-w', 'nowhere'],
      code: 5,
      err: 'There is no workspace nowhere, or you are not in it.\ntry: one of: main',
    },
    { args: ['-e', 'staging', '--all-environments'], code: 2, err: 'Give --environment or --all-environments.' },
    { args: ['-e', 'staging,'], code: 2, err: '--environment must be a list such as a,b.' },
  ])('refuses $args', async ({ args, code, err }) => {
    expect(await shellOf().coffer(['secrets', 'list', ...args])).toMatchObject({
      code,
      out: '',
      err: `coffer: ${err}\n`,
    })
  })
})

describe('get', () => {
  test('prints a value with its references resolved, or as it is stored', async () => {
    const shell = shellOf()
    expect(await shell.coffer(['secrets', 'get', 'URL'])).toMatchObject({
      code: 0,
      out: 'postgres://db2.example.com/app\n',
      err: '',
    })
    expect((await shell.coffer(['secrets', 'get', 'URL', '--no-resolve'])).out).toBe(`postgres://\${HOST}/app\n`)
  })

  test('prints exact bytes with --raw, also to a terminal', async () => {
    const shell = shellOf()
    const value = 'a\u001b[2Jb\tc\nd\r\u202e é 漢字'
    expect((await shell.coffer(['secrets', 'get', 'STEER', '--raw'])).out).toBe(value)
    expect((await shell.coffer(['secrets', 'get', 'EMPTY', '--raw'])).out).toBe('')
    const shown = shell.terminal(['secrets', 'get', 'STEER'])
    await shown.ended
    expect(shown.screen().replaceAll('\r\n', '\n')).toBe('a\\u001b[2Jb\tc\nd\\u000d\\u202e é 漢字\n')
    expect((await shell.terminal(['secrets', 'get', 'STEER', '--raw']).ended).out).toContain('a\u001b[2Jb')
  })

  test('prints several keys, an earlier version and objects', async () => {
    const shell = shellOf()
    expect((await shell.coffer(['secrets', 'get', 'HOST', 'EMPTY'])).out).toBe('HOST\tdb2.example.com\nEMPTY\t\n')
    expect((await shell.coffer(['secrets', 'get', 'HOST', '--version', '1'])).out).toBe('db.example.com\n')
    expect(JSON.parse((await shell.coffer(['secrets', 'get', 'HOST', '--json'])).out)).toMatchObject({ name: 'HOST' })
    const earlier = await shell.coffer(['secrets', 'get', 'HOST', '--version', '1', '--json'])
    expect(JSON.parse(earlier.out)).toMatchObject({ version: 1, value: 'db.example.com' })
  })

  test('reads only the keys that it is asked for', async () => {
    await shellOf().coffer(['secrets', 'get', 'HOST', 'EMPTY'])
    const { body } = await running.service.call<{ after: { keys?: string[] }; entityName?: string }[]>(
      'GET',
      '/v1/workspace/main/audit?action=VIEW&limit=2',
      { token: running.session },
    )
    expect(JSON.stringify(body)).not.toContain('STEER')
  })

  test.each([
    { args: ['ABSENT'], code: 5, err: 'There is no secret ABSENT in development.\ntry: coffer secrets list' },
    {
      args: ['HOST', 'GONE', 'LOST'],
      code: 5,
      err: 'There is no secret GONE, LOST in development.\ntry: coffer secrets list',
    },
    {
      args: ['HOST', '--version', '9'],
      code: 5,
      err: 'There is no secret HOST@9 in development.\ntry: coffer secrets list',
    },
    {
      args: ['HOST', '-e', 'nowhere'],
      code: 5,
      err: 'There is no environment nowhere in the project api, or this credential does not reach it.\ntry: one of: development, staging, production',
    },
    { args: ['HOST', '--version', '0'], code: 2, err: '--version must be a whole number from 1 on.' },
    { args: ['HOST', 'EMPTY', '--raw'], code: 2, err: '--raw takes one KEY.' },
    { args: ['HOST', 'EMPTY', '--version', '1'], code: 2, err: '--version takes one KEY.' },
    { args: ['../HOST'], code: 2, err: 'The name of a secret has 1 to 255 letters, digits, _ and -.' },
    { args: ['..'], code: 2, err: 'The name of a secret has 1 to 255 letters, digits, _ and -.' },
    { args: ['BROKEN'], code: 6, err: `BROKEN: refers to ABSENT, which cannot be resolved.` },
    { args: [], code: 2, err: 'An argument is missing.\ntry: coffer secrets get KEY…' },
  ])('refuses $args and prints nothing', async ({ args, code, err }) => {
    expect(await shellOf().coffer(['secrets', 'get', ...args])).toMatchObject({
      code,
      out: '',
      err: `coffer: ${err}\n`,
    })
  })

  test('keeps or removes an unresolved reference when asked', async () => {
    const shell = shellOf()
    const kept = await shell.coffer(['secrets', 'get', 'BROKEN', '--on-unresolved', 'keep'])
    expect(kept).toMatchObject({
      code: 0,
      out: `a \${ABSENT} b\n`,
      err: `BROKEN: refers to ABSENT, which cannot be resolved.\n`,
    })
    expect((await shell.coffer(['secrets', 'get', 'BROKEN', '--on-unresolved', 'empty'])).out).toBe('a  b\n')
  })
})

describe('2,000 secrets', () => {
  beforeAll(async () => {
    await post('environment', { name: 'large' })
    const secrets = Array.from({ length: 2_000 }, (_, index) => ({ key: `LARGE_${index}`, value: 'v'.repeat(200) }))
    await post('secret', { environments: ['large'], secrets })
  })

  test('are listed completely', async () => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'large' })
    const listed = await shell.coffer(['secrets', 'list', '--values', '--json'])
    expect(JSON.parse(listed.out)).toHaveLength(2_000)
    const table = await shell.coffer(['secrets', 'list'])
    expect(table.out.trimEnd().split('\n')).toHaveLength(2_000)
  })

  test('a reader that stops early ends the command without a message', async () => {
    const start = join(import.meta.dirname, '../../../start.js')
    const child = spawn(
      'bash',
      ['-c', `set -o pipefail; "${process.execPath}" "${start}" secrets list --values -e large | head -n 1`],
      {
        env: { PATH: process.env.PATH, HOME: openShell().home, ...running.env },
      },
    )
    let err = ''
    let out = ''
    child.stderr.on('data', (data) => (err += data))
    child.stdout.on('data', (data) => (out += data))
    const code = await new Promise((resolve) => child.once('close', resolve))
    expect({ code, err, lines: out.split('\n').length }).toEqual({ code: 141, err: '', lines: 2 })
  })
})
