/** `coffer run`: which variables the command receives, and how it ends. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { createProject } from '../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { times } from '../../../test/tier.ts'

let running: SdkService
const values = {
  HOST: 'db.example.com',
  DATABASE_URL: `postgres://\${HOST}/app`,
  EMPTY: '',
  TWO_LINES: 'one\ntwo "\' $x ü',
}

beforeAll(async () => {
  running = await startSdkService()
  await running.write(values)
  await createProject(running.service, running.session, 'shared')
  await write('shared', 'development', { HOST: 'shared.example.com', REGION: 'eu' })
  for (const [environment, content] of Object.entries({
    unsafe: {
      PATH: '/evil',
      LD_PRELOAD: '',
      DYLD_INSERT_LIBRARIES: 'x',
      NODE_OPTIONS: '--require=x',
      npm_config_script_shell: '/evil',
      KEY: 'v',
    },
    odd: { 'my-key': 'dashed', KEY: 'v' },
    nul: { NUL: 'before\0after', KEY: 'v' },
    later: { JAVA_OPTS: '-javaagent:/evil', VIMINIT: ':!evil', XDG_CONFIG_HOME: '/evil', REDIS_OPTS: 'r', KEY: 'v' },
    broken: { BROKEN: `\${ABSENT}`, KEY: 'v' },
    large: Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`LARGE_${index}`, 'x'.repeat(60_000)])),
  })) {
    await running.service.call('POST', '/v1/workspace/main/project/api/environment', {
      token: running.session,
      body: { name: environment },
    })
    await write('api', environment, content)
  }
})
afterAll(() => running.stop())

async function write(project: string, environment: string, content: Record<string, string>) {
  const secrets = Object.entries(content).map(([key, value]) => ({ key, value }))
  const body = { environments: [environment], secrets, mode: 'upsert' }
  const path = `/v1/workspace/main/project/${project}/secret`
  const answer = await running.service.call('POST', path, { token: running.session, body })
  if (answer.status !== 201) throw new Error(answer.text)
}

const open = (env: Record<string, string | undefined> = {}) => openShell({ ...running.env, ...env })
const printEnvironment = [process.execPath, '-e', 'console.log(JSON.stringify(process.env))']

async function environmentOf(shell: Shell, flags: readonly string[], env: Record<string, string> = {}) {
  const { code, out, err } = await shell.coffer(['run', ...flags, '--', ...printEnvironment], { env })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out)
}

test('says that an environment has no secrets', async () => {
  const shell = open()
  const args = ['run', '-e', 'staging', '--', 'true']
  expect(await shell.coffer(args)).toMatchObject({
    code: 0,
    err: 'coffer: main/api/staging has no secrets. try: coffer secrets set KEY -p api -e staging\n',
  })
  expect(await shell.coffer(['run', '-q', ...args.slice(1)])).toMatchObject({ code: 0, err: '' })
})

test('names the projects if there is no such one', async () => {
  const { code, err } = await open({ COFFER_TOKEN: running.session }).coffer(['run', '-p', 'absent', '--', 'true'])
  expect({ code, err }).toEqual({
    code: 125,
    err: 'coffer: There is no project absent in the workspace main that you may see.\ntry: one of: api, shared\n',
  })
})

describe('the environment of the command', () => {
  test('holds the variables of the shell and the secrets, without the credential', async () => {
    const shell = open({ HOST: 'shell', OTHER: 'kept', COFFER_TOKEN_NOTE: 'x', COFFER_ID_TOKEN_FILE: 'x' })
    const { COFFER_URL, COFFER_WORKSPACE, COFFER_PROJECT, COFFER_ENVIRONMENT } = running.env
    const seen = await environmentOf(shell, [])
    expect(seen).toEqual({
      PATH: process.env.PATH,
      HOME: shell.home,
      TMPDIR: expect.any(String),
      NODE_COMPILE_CACHE: expect.any(String),
      OTHER: 'kept',
      COFFER_URL,
      COFFER_WORKSPACE,
      COFFER_PROJECT,
      COFFER_ENVIRONMENT,
      ...values,
      DATABASE_URL: 'postgres://db.example.com/app',
    })
  })

  test('is exactly the secrets with --pristine', async () => {
    const shell = open()
    expect(await environmentOf(shell, ['--pristine'])).toEqual({ ...values, DATABASE_URL: expect.any(String) })
    expect(await environmentOf(shell, ['--pristine', '--only', 'HOST', '--preserve-env=HOME'])).toEqual({
      HOST: 'db.example.com',
      HOME: shell.home,
    })
    // Without PATH in its environment, the command is still found by ours.
    expect(await shell.coffer(['run', '--pristine', '--', 'true'])).toMatchObject({ code: 0, err: '' })
  })

  test('holds only what --only names, under --prefix', async () => {
    expect(await environmentOf(open(), ['--pristine', '--only', 'APP_HOST,APP_EMPTY', '--prefix', 'APP_'])).toEqual({
      APP_HOST: 'db.example.com',
      APP_EMPTY: '',
    })
    expect(await open().coffer(['run', '--only', 'HOST,ABSENT', '--', 'true'])).toMatchObject({
      code: 125,
      out: '',
      err: 'coffer: There is no secret ABSENT here.\n',
    })
  })

  test('keeps variables of the shell with --preserve-env, and -v says so', async () => {
    const env = { HOST: 'shell', EMPTY: 'shell' }
    expect(await environmentOf(open(env), ['--preserve-env'])).toMatchObject({ HOST: 'shell', EMPTY: 'shell' })
    expect(await environmentOf(open(env), ['--preserve-env=HOST'])).toMatchObject({ HOST: 'shell', EMPTY: '' })
    const { err } = await open(env).coffer(['run', '-v', '--preserve-env=HOST', '--', 'true'])
    expect(err.split('\n').filter((line) => / shell/.test(line))).toEqual([
      'coffer: EMPTY: from main/api/development, replaces the variable of the shell',
      'coffer: HOST: from the shell, not from main/api/development (--preserve-env)',
    ])
  })

  test('merges the sources of .coffer.json in their order', async () => {
    const shell = open({ COFFER_PROJECT: undefined, COFFER_ENVIRONMENT: undefined })
    const sources = [{ project: 'api' }, { project: 'shared' }, { project: 'shared', prefix: 'SHARED_' }]
    const file = { environment: 'development', sources, run: { required: ['REGION'] } }
    writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify(file))
    expect(await environmentOf(shell, ['--pristine'])).toEqual({
      ...values,
      DATABASE_URL: expect.any(String),
      HOST: 'shared.example.com',
      REGION: 'eu',
      SHARED_HOST: 'shared.example.com',
      SHARED_REGION: 'eu',
    })
    const { code, err } = await shell.coffer(['run', '-p', 'api', '--', 'true'])
    expect({ code, err }).toEqual({
      code: 125,
      err: 'coffer: REGION must be set, as run.required of .coffer.json says.\n',
    })
  })

  test('comes from the only environment of a token where no project is named', async () => {
    const { body } = await running.service.call<{ token: string }>('POST', '/v1/workspace/main/tokens', {
      token: running.session,
      body: { name: 'one', permission: 'read', scope: { environments: [running.environmentId] }, expiresIn: '24h' },
    })
    const none = { COFFER_WORKSPACE: undefined, COFFER_PROJECT: undefined, COFFER_ENVIRONMENT: undefined }
    const shell = open({ ...none, COFFER_TOKEN: body.token })
    expect(await environmentOf(shell, ['--pristine', '--only', 'HOST'])).toEqual({ HOST: 'db.example.com' })
  })
})

test.each([
  {
    name: 'later',
    message:
      'JAVA_OPTS \\(Java obeys it\\), VIMINIT \\(vi obeys it\\), XDG_CONFIG_HOME .*\\ntry: --allow-name JAVA_OPTS',
  },
  { name: 'broken', message: 'BROKEN: refers to ABSENT.*\\ntry: coffer secrets set ABSENT, or --on-unresolved keep' },
  { name: 'large', message: 'too large for this system: the variables take 3\\d{3} KiB' },
  {
    name: 'absent',
    message: 'There is no environment absent in the project api, or this credential does not reach it',
  },
])('refuses the environment `$name` without a value in the message', async ({ name, message }) => {
  const { code, out, err } = await open().coffer(['run', '-e', name, '--', 'echo', 'started'])
  expect({ code, out }, err).toEqual({ code: 125, out: '' })
  expect(err).toMatch(new RegExp(message))
  expect(err).not.toMatch(/before|after|evil|xxxx|unexpected/)
})

describe('a secret that is no variable', () => {
  const left = 'coffer: Left out of the variables: '

  test.each([
    [
      'unsafe',
      'DYLD_INSERT_LIBRARIES (the loader of programs obeys it), LD_PRELOAD (the loader of programs obeys it), ' +
        'NODE_OPTIONS (Node obeys it), PATH (a shell obeys it), npm_config_script_shell (npm obeys it). ' +
        'try: --allow-name DYLD_INSERT_LIBRARIES\n',
    ],
    ['odd', 'my-key (not the name of a variable). try: --allow-name my-key\n'],
    ['nul', 'NUL (its value contains a NUL).\n'],
  ])('of the environment `%s` is left out with a line, and fails with --strict', async (name, line) => {
    const shell = open()
    const { code, out, err } = await shell.coffer(['run', '--pristine', '-e', name, '--', ...printEnvironment])
    expect({ code, err }).toEqual({ code: 0, err: left + line })
    expect(JSON.parse(out)).toEqual({ KEY: 'v' })
    const strict = await shell.coffer(['run', '--strict', '-e', name, '--', 'echo', 'started'])
    expect(strict).toMatchObject({ code: 125, out: '', err: expect.stringContaining(left) })
    expect(strict.err).not.toMatch(/before|after|evil/)
  })

  test('keeps the variable of the shell', async () => {
    const { out } = await open().coffer(['run', '-e', 'unsafe', '--', ...printEnvironment])
    expect(JSON.parse(out).PATH).toBe(process.env.PATH)
  })

  test('that earlier versions set is left out with --no-strict and on a terminal, and set with --allow-name', async () => {
    const shell = open()
    const later = ['--pristine', '-e', 'later']
    const { code, out, err } = await shell.coffer(['run', '--no-strict', ...later, '--', ...printEnvironment])
    expect({ code, err: err.slice(0, left.length) }).toEqual({ code: 0, err: left })
    expect(JSON.parse(out)).toEqual({ REDIS_OPTS: 'r', KEY: 'v' })
    const names = ['--allow-name', 'JAVA_OPTS,VIMINIT', '--allow-name', 'XDG_CONFIG_HOME']
    expect(await environmentOf(shell, [...names, ...later])).toMatchObject({ JAVA_OPTS: '-javaagent:/evil' })
    const session = shell.terminal(['run', ...later, '--', 'true'])
    expect(await session.ended).toMatchObject({ code: 0 })
    expect(session.screen()).toContain('Left out of the variables: JAVA_OPTS')
  })

  test('is allowed by .coffer.json once the person has confirmed its names, and not before', async () => {
    const shell = open()
    const file = join(shell.cwd, '.coffer.json')
    writeFileSync(file, JSON.stringify({ allowNames: ['my-key'] }))
    const odd = ['run', '-e', 'odd', '--', 'true']
    const before = await shell.coffer(odd)
    expect(before.code).toBe(0)
    expect(before.err).toContain('.coffer.json allows my-key, which nobody has confirmed. try: coffer trust\n')
    expect(before.err).toContain('Left out of the variables: my-key')
    expect(await shell.coffer(['trust'])).toMatchObject({ code: 2, out: '' })
    const session = shell.terminal(['trust'])
    await session.see('May secrets set my-key')
    session.type('y')
    expect(await session.ended).toMatchObject({ code: 0 })
    expect(await shell.coffer(odd)).toMatchObject({ code: 0, err: '' })
    expect((await shell.coffer(['trust', '--list'])).out).toContain(`my-key in ${file}\tcoffer trust\n`)
    // A name that is added later is a new question.
    writeFileSync(file, JSON.stringify({ allowNames: ['my-key', 'JAVA_OPTS'] }))
    const later = await shell.coffer(['run', '-e', 'later', '--', 'true'])
    expect(later.err).toContain('.coffer.json allows JAVA_OPTS, which nobody has confirmed')
    expect(later.code).toBe(125)
    expect(await shell.coffer(['trust', '--remove'])).toMatchObject({ code: 0 })
    expect((await shell.coffer(odd)).err).toContain('Left out of the variables: my-key')
  })

  test('is named by status and doctor, and when it is created', async () => {
    const shell = open({ COFFER_TOKEN: running.session })
    expect((await shell.coffer(['status', '-e', 'later'])).out).toMatch(
      /left out by run\tJAVA_OPTS \(Java obeys it\), VIM/,
    )
    expect((await shell.coffer(['doctor', '-e', 'later'])).out).toMatch(/warn\tnames\tcoffer run leaves out: JAVA_OPTS/)
    const args = ['secrets', 'set', '-q', '-e', 'staging', '--stdin', 'EDITOR']
    expect((await shell.coffer(args, { input: 'x' })).err).toContain('EDITOR: every program that opens')
    expect((await shell.coffer(args, { input: 'y' })).err).toBe('')
  })
})

test('passes unsafe and odd names with --allow-unsafe, and unresolved references as asked', async () => {
  const only = ['--pristine', '--allow-unsafe']
  expect(await environmentOf(open(), [...only, '-e', 'odd'])).toEqual({ 'my-key': 'dashed', KEY: 'v' })
  expect(await environmentOf(open(), [...only, '-e', 'unsafe', '--only', 'LD_PRELOAD'])).toEqual({ LD_PRELOAD: '' })
  expect(await environmentOf(open(), ['--pristine', '-e', 'broken', '--on-unresolved', 'keep'])).toEqual({
    BROKEN: `\${ABSENT}`,
    KEY: 'v',
  })
  expect(await environmentOf(open(), ['--pristine', '-e', 'broken', '--on-unresolved', 'empty'])).toEqual({
    BROKEN: '',
    KEY: 'v',
  })
})

describe('the exit code', () => {
  const codes = Array.from({ length: 256 }, (_, code) => code)
  const sample = [0, 1, 2, 42, 125, 126, 127, 128, 130, 143, 255]

  test('is that of the command', async () => {
    const shell = open()
    for (const code of times(0, 1) ? codes : sample) {
      expect(await shell.coffer(['run', '--', 'sh', '-c', `exit ${code}`])).toMatchObject({ code, out: '', err: '' })
    }
  })

  test('tells a command that is missing, or cannot be executed, from a failure of ours', async () => {
    const shell = open()
    const file = join(shell.cwd, 'not-executable')
    writeFileSync(file, '#!/bin/sh\n')
    const absent = await shell.coffer(['run', '--', 'no-such-command'])
    expect(absent).toMatchObject({ code: 127, out: '', err: 'coffer: no-such-command: there is no such command.\n' })
    expect(await shell.coffer(['run', '--', file])).toMatchObject({
      code: 126,
      err: `coffer: ${file} cannot be started (EACCES).\n`,
    })
    expect(await shell.coffer(['run', '--redact', '--', 'no-such-command'])).toMatchObject({ code: 127 })
    for (const args of [
      [],
      ['--'],
      ['true'],
      ['--bogus', '--', 'true'],
      ['--grace', '5', '--', 'true'],
      ['--grace', '25d', '--', 'true'],
      ['--watch-interval', '0s', '--', 'true'],
      ['--watch-interval', '25d', '--', 'true'],
    ]) {
      const { code, err } = await shell.coffer(['run', ...args])
      expect({ code, isExplained: /^coffer: .*\ntry: /.test(err) }, err).toEqual({ code: 125, isExplained: true })
    }
    expect(await shell.coffer(['run', '-C', join(shell.cwd, 'absent'), '--', 'true'])).toMatchObject({ code: 125 })
    expect(await shell.coffer(['run', '--', 'true'], { env: { COFFER_TOKEN: 'coffer_live_wrong' } })).toMatchObject({
      code: 125,
    })
  })
})

test('starts the command in --cwd, without a shell unless --shell is given', async () => {
  const shell = open()
  mkdirSync(join(shell.cwd, 'inner'))
  expect(await shell.coffer(['run', '-C', 'inner', '--', 'pwd'])).toMatchObject({ out: `${shell.cwd}/inner\n` })
  expect(await shell.coffer(['run', '--', 'echo', '$HOST'])).toMatchObject({ out: '$HOST\n' })
  expect(await shell.coffer(['run', '--shell', '--', 'echo "$HOST"', '| tr a-z A-Z'])).toMatchObject({
    out: 'DB.EXAMPLE.COM\n',
  })
})

test('passes stdin through untouched', async () => {
  const input = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  const { out } = await open().coffer(
    ['run', '--', process.execPath, '-e', 'process.stdin.on("data", (d) => console.log(d.toString("hex")))'],
    { input },
  )
  expect(out).toBe(`${input.toString('hex')}\n`)
})

test.each(['', '/dev/null', '/sys', '/proc/none'])(
  'works with the home `%s`, where nothing can be kept',
  async (HOME) => {
    expect(await open().coffer(['run', '--', 'true'], { env: { HOME } })).toMatchObject({ code: 0, err: '' })
  },
)

test('reads a token from a pipe, which can be read only once', async () => {
  const shell = open()
  const pipe = join(shell.home, 'pipe')
  execFileSync('mkfifo', [pipe])
  const program = shell.start(['run', '--', 'true'], { env: { COFFER_TOKEN: undefined, COFFER_TOKEN_FILE: pipe } })
  await writeFile(pipe, running.token)
  expect(await program.ended).toMatchObject({ code: 0, err: '' })
})

test.runIf(process.platform === 'linux')(
  'a token in a file is in no environment that the command can read',
  async () => {
    const shell = open()
    const path = join(shell.home, 'token')
    writeFileSync(path, running.token, { mode: 0o600 })
    const env = { COFFER_TOKEN: undefined, COFFER_TOKEN_FILE: path }
    const read = ['run', '--', 'sh', '-c', 'cat /proc/$PPID/environ; env']
    const { code, out } = await shell.coffer(read, { env })
    expect(code).toBe(0)
    expect(out).toContain(`COFFER_TOKEN_FILE=${path}`)
    expect(out).not.toContain(running.token)
    // The page on the command line says so.
    expect((await shell.coffer(read)).out.split(running.token)).toHaveLength(2)
  },
)
