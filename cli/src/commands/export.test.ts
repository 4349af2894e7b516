/** `coffer export`: what a shell, a parser or a CI runner reads from it is what was stored. */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { openShell } from '../../../test/cli.ts'
import { requirePrograms } from '../../../test/debian-package.ts'
import { hostileText, hostileValues } from '../../../test/hostile-text.ts'
import { type SdkService, startScripted, startSdkService } from '../../../test/sdk-service.ts'
import { isDeep, times } from '../../../test/tier.ts'

// The fast tier uses what every Debian has; the deep tier installs the rest.
const onlyDeep = (title: string, check: () => Promise<void>) => {
  if (isDeep) test(title, check)
}
if (isDeep) await requirePrograms('zsh', 'fish', 'jq')
const shells = isDeep ? ['bash', 'dash', 'zsh'] : ['bash', 'dash']

let running: SdkService
const project = '/v1/workspace/main/project/api'
const count = times(500, 10_000)
const holdable = (value: string) => !value.includes('\0') && !/^(\*{8,}|•{4,})$/.test(value)
const drawn = fc.sample(hostileText, count * 2).filter(holdable)
const values = new Map(
  [...hostileValues.filter(holdable), ...drawn].slice(0, count).map((value, index) => [`K_${index}`, value]),
)
/** For formats of one line. */
const lines = new Map([...values].map(([key, value]) => [key, value.replace(/[\r\n]/g, ' ')]))

async function post(path: string, body: unknown): Promise<void> {
  const { status, text } = await running.service.call('POST', `${project}/${path}`, { token: running.session, body })
  expect(status, text).toBeLessThan(300)
}

async function fill(environment: string, entries: ReadonlyMap<string, string>): Promise<void> {
  await post('environment', { name: environment })
  await post('secret', { environments: [environment], secrets: [...entries].map(([key, value]) => ({ key, value })) })
}

beforeAll(async () => {
  running = await startSdkService()
  await fill('random', values)
  await fill('lines', lines)
  await post('environment', { name: 'copy' })
  await running.write({ HOST: 'db', URL: `x://\${HOST}`, LONG: 'first line\nsecond line\r\n{\n', PORT: '5432' })
})
afterAll(() => running.stop())

const shellOf = (env: Record<string, string | undefined> = {}) => openShell({ ...running.env, ...env })

async function exported(format: string, environment: string): Promise<string> {
  const args = ['export', '-f', format, '-e', environment, '--no-resolve']
  const { code, out, err } = await shellOf().coffer(args)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

describe(`${count} random values`, () => {
  /** The variables after a shell has read its script from a file, separated by NUL. */
  function evaluated(shell: string, script: string): Map<string, string> {
    const file = join(mkdtempSync(join(tmpdir(), 'coffer-export-')), 'script')
    onTestFinished(() => rmSync(dirname(file), { recursive: true }))
    writeFileSync(file, script)
    const { stdout, stderr, status } = spawnSync(shell, shell === 'fish' ? ['--no-config', file] : [file], {
      env: { PATH: process.env.PATH, HOME: dirname(file), LC_ALL: 'C.UTF-8' },
      maxBuffer: 256 * 1024 * 1024,
    })
    expect({ status, err: stderr.toString() }).toEqual({ status: 0, err: '' })
    const read = stdout.toString().split('\0').slice(0, -1)
    return new Map([...values.keys()].map((key, index) => [key, read[index] ?? 'absent']))
  }
  const printAll = [...values.keys()].map((key) => `printf '%s\\0' "$${key}"\n`).join('')

  test.each(shells)('%s evaluates them', async (shell) => {
    expect(evaluated(shell, `${await exported('shell', 'random')}${printAll}`)).toEqual(values)
  })

  onlyDeep('fish sources them', async () => {
    expect(evaluated('fish', `${await exported('fish', 'random')}${printAll}`)).toEqual(values)
  })

  test('fish quotes backslashes and quotes, and nothing else', async () => {
    const found = await exported('fish', 'random')
    const unquoted = [...found.matchAll(/^set -gx (K_\d+) '((?:[^\\']|\\[\\'])*)'$/gm)].map(
      ([, key = '', text = '']) => [key, text.replace(/\\([\\'])/g, '$1')] as const,
    )
    expect(new Map(unquoted.sort(([a], [b]) => Number(a.slice(2)) - Number(b.slice(2))))).toEqual(values)
  })

  test('JSON and YAML parsers read them', async () => {
    const expected = Object.fromEntries(values)
    expect(JSON.parse(await exported('json', 'random'))).toEqual(expected)
    expect(parseYaml(await exported('yaml', 'random'))).toEqual(expected)
    const manifest = parseYaml(await exported('k8s', 'random'))
    const decoded = Object.entries(manifest.data).map(([key, text]) => [
      key,
      Buffer.from(String(text), 'base64').toString(),
    ])
    expect(Object.fromEntries(decoded)).toEqual(expected)
  })

  onlyDeep('jq reads them', async () => {
    const { stdout } = spawnSync('jq', ['-j', 'to_entries[] | .key, "\\u0000", .value, "\\u0000"'], {
      input: await exported('json', 'random'),
      maxBuffer: 256 * 1024 * 1024,
    })
    const read = stdout.toString().split('\0').slice(0, -1)
    const pairs = Array.from({ length: read.length / 2 }, (_, index) => [read[2 * index], read[2 * index + 1]])
    expect(Object.fromEntries(pairs)).toEqual(Object.fromEntries(values))
  })

  test('a dotenv file can be imported again', async () => {
    const content = await exported('dotenv', 'random')
    await post('secret/import', { environmentId: 'copy', format: 'dotenv', content, mode: 'upsert' })
    expect(JSON.parse(await exported('json', 'copy'))).toEqual(Object.fromEntries(values))
  })

  test('docker --env-file reads them, one line each', async () => {
    const read = (await exported('docker', 'lines')).split('\n').slice(0, -1)
    const pairs = read.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])
    expect(Object.fromEntries(pairs)).toEqual(Object.fromEntries(lines))
  })

  test('GitHub Actions reads them from its file, after each line is masked', async () => {
    const shell = shellOf()
    const file = join(shell.cwd, 'github-env')
    writeFileSync(file, 'EARLIER=1\n')
    const { code, out } = await shell.coffer(['export', '-f', 'github', '-e', 'random', '--no-resolve', '-q'], {
      env: { GITHUB_ENV: file },
    })
    expect(code).toBe(0)
    expect(Object.fromEntries(readAsRunner(readFileSync(file, 'utf8')))).toEqual({
      EARLIER: '1',
      ...Object.fromEntries(values),
    })
    const masks = new Set(out.split('\n').map((line) => line.replace(/^::add-mask::/, '').replaceAll('%25', '%')))
    const secretLines = [...values.values()].flatMap((value) => value.split(/\r\n|\r|\n/)).map((line) => line.trim())
    expect(secretLines.filter((line) => line.length >= 6 && !masks.has(line))).toEqual([])
    expect(out.split('\n').filter((line) => line !== '' && !line.startsWith('::add-mask::'))).toEqual([])
  })
})

/** Reads a file of the runner on Linux: `NAME=value`, or `NAME<<DELIMITER` and lines up to the delimiter. */
function readAsRunner(text: string): Map<string, string> {
  const found = new Map<string, string>()
  const left = text.split('\n')
  for (let line = left.shift(); line !== undefined; line = left.shift()) {
    const [, key = '', mark, rest = ''] = /^([^=<]+)(=|<<)([\s\S]*)$/.exec(line) ?? []
    if (mark === '=') found.set(key, rest)
    if (mark !== '<<') continue
    const end = left.indexOf(rest)
    expect(end).toBeGreaterThanOrEqual(0)
    found.set(
      key,
      left
        .splice(0, end + 1)
        .slice(0, -1)
        .join('\n'),
    )
  }
  return found
}

describe('formats', () => {
  test.each(['dotenv', 'shell', 'json', 'yaml', 'csv', 'k8s', 'tfvars'])(
    '%s comes as the service writes it',
    async (format) => {
      const { out } = await shellOf().coffer(['export', '-f', format])
      const path = `${project}/secret/export?environmentId=development&format=${format}&resolve=true`
      const { text } = await running.service.call('GET', path, { token: running.session })
      expect(out).toBe(text)
      expect(out).not.toBe('')
    },
  )

  test('dotenv is the default, with references resolved', async () => {
    const shell = shellOf()
    expect((await shell.coffer(['export'])).out).toContain('URL=x://db\n')
    expect((await shell.coffer(['export', '--no-resolve'])).out).toContain(`URL="x://\${HOST}"\n`)
    expect(JSON.parse((await shell.coffer(['export', '--json'])).out).URL).toBe('x://db')
  })

  test('dotenv names values that its readers do not read alike', async () => {
    await fill(
      'readers',
      new Map([
        ['ODD', "it's $5"],
        ['FINE', "it's"],
      ]),
    )
    expect(await shellOf().coffer(['export', '-e', 'readers'])).toMatchObject({
      code: 0,
      out: `FINE="it's"\n# bash, Node, dotenv and python-dotenv do not all read the next value alike: ODD\nODD="it's \\$5"\n`,
      err: 'bash, Node, dotenv and python-dotenv do not all read these values alike: ODD.\n',
    })
  })

  test('github says what it does not mask, and escapes its commands', async () => {
    const shell = shellOf()
    await shell.coffer(['secrets', 'set', 'ODD=100%0A%25', '-q'], { env: { COFFER_TOKEN: running.session } })
    const { out, err } = await shell.coffer(['export', '-f', 'github', '-o', 'outputs'])
    expect(out).toBe('::add-mask::first line\n::add-mask::second line\n::add-mask::100%250A%2525\n::add-mask::x://db\n')
    expect(err).toBe(
      `Not masked, because shorter than 6 characters: HOST, PORT.\nExported 5 secrets to ${join(shell.cwd, 'outputs')}.\n`,
    )
    const delimiters = readFileSync(join(shell.cwd, 'outputs'), 'utf8').match(/<<.+$/gm) ?? []
    expect(new Set(delimiters).size).toBe(5)
  })

  test('github begins a line of its own after one that is not ended', async () => {
    const shell = shellOf()
    writeFileSync(join(shell.cwd, 'outputs'), 'before=1')
    await shell.coffer(['export', '-f', 'github', '-o', 'outputs'])
    expect(readFileSync(join(shell.cwd, 'outputs'), 'utf8')).toMatch(/^before=1\n[A-Z_]+<</)
  })

  test('gitlab writes a report that GitLab reads unchanged', async () => {
    await fill(
      'report',
      new Map([
        ['A', 'two words "quoted"'],
        ['B', ''],
        ['C', 'a=b#c'],
      ]),
    )
    const { out, err } = await shellOf().coffer(['export', '-f', 'gitlab', '-e', 'report'])
    expect({ out, err }).toEqual({ out: 'A=two words "quoted"\nB=\nC=a=b#c\n', err: '' })
    const read = out
      .split('\n')
      .slice(0, -1)
      .map((line) =>
        /^(.*?)=(.*)$/
          .exec(line)
          ?.slice(1, 3)
          .map((part) => part.trim()),
      )
    expect(read).toEqual([
      ['A', 'two words "quoted"'],
      ['B', ''],
      ['C', 'a=b#c'],
    ])
  })

  test.each([
    ['gitlab', 'A', 'a\nb', 'its value contains a line break'],
    ['gitlab', 'A', ' a', 'its value begins or ends with white space, which GitLab removes'],
    ['gitlab', 'A', 'pa$$word', 'its value contains $ or %…%, which GitLab expands'],
    ['github', 'github_token', 'a', 'GitHub Actions ignores variables of this name'],
  ])('%s refuses %s with %j by its name', async (format, key, value, reason) => {
    const environment = `refused ${Math.random().toString(36).slice(2)}`
    await fill(environment, new Map([[key, value]]))
    const shell = shellOf()
    const { code, out, err } = await shell.coffer(['export', '-f', format, '-e', environment, '-o', 'file'])
    expect({ code, out, err }).toEqual({
      code: 1,
      out: '',
      err: `coffer: The format ${format} cannot hold ${key}: ${reason}.\n`,
    })
    expect(readdirSync(shell.cwd)).toEqual([])
  })
})

describe('secrets that are no variables', () => {
  const entries = new Map([
    ['JAVA_OPTS', 'c4n4ry'],
    ['NUL', 'c4n4ry\0'],
    ['my-key', 'c4n4ry'],
    ['REDIS_OPTS', 'kept'],
  ])
  beforeAll(() => fill('variables', entries))
  const left =
    'Left out of the variables: JAVA_OPTS (Java obeys it), NUL (its value contains a NUL), my-key (not the name of a variable). ' +
    'try: --allow-name JAVA_OPTS\n'

  test.each([
    ['shell', "export REDIS_OPTS='kept'\n"],
    ['fish', "set -gx REDIS_OPTS 'kept'\n"],
    ['gitlab', 'REDIS_OPTS=kept\n'],
  ])('%s leaves them out with --no-strict, and fails for the name that it exported before', async (format, lines) => {
    const args = ['export', '-e', 'variables', '-f', format]
    const { code, out, err } = await shellOf().coffer([...args, '--no-strict'])
    expect({ code, err }).toEqual({ code: 0, err: left })
    expect(out).toMatch(new RegExp(`${RegExp.escape(lines)}$`))
    expect(out).not.toContain('c4n4ry')
    const strict = await shellOf().coffer(args)
    expect(strict).toMatchObject({ code: 1, out: '' })
    expect(strict.err).toMatch(
      /^coffer: Left out of the variables: JAVA_OPTS \(Java obeys it\)\.\ntry: --allow-name JAVA_OPTS .*--no-strict/,
    )
    const allowed = await shellOf().coffer([...args, '--allow-name', 'JAVA_OPTS'])
    expect(allowed).toMatchObject({ code: 0, err: expect.not.stringContaining('JAVA_OPTS') })
    expect(allowed.out).toMatch(/JAVA_OPTS.*c4n4ry/)
  })

  test('github masks all of them, and sets none', async () => {
    const shell = shellOf()
    const args = ['export', '-e', 'variables', '-f', 'github', '-o', 'env', '-q']
    expect(await shell.coffer(args)).toMatchObject({ code: 1, err: expect.stringContaining('JAVA_OPTS') })
    expect(existsSync(join(shell.cwd, 'env'))).toBe(false)
    const { code, out } = await shell.coffer([...args, '--no-strict'])
    expect({ code, out }).toEqual({ code: 0, out: '::add-mask::c4n4ry\n::add-mask::c4n4ry\0\n' })
    expect([...readAsRunner(readFileSync(join(shell.cwd, 'env'), 'utf8'))]).toEqual([['REDIS_OPTS', 'kept']])
  })

  test('files of data are whole', async () => {
    for (const format of ['dotenv', 'json', 'yaml', 'csv', 'k8s', 'tfvars']) {
      const { code, out } = await shellOf().coffer(['export', '-e', 'variables', '-f', format])
      expect(code).toBe(0)
      expect(
        [...entries.keys()].filter((key) => !out.includes(key)),
        format,
      ).toEqual([])
    }
  })
})

describe('files', () => {
  test('are private and complete, and replaced only with --force', async () => {
    const shell = shellOf()
    const file = join(shell.cwd, '.env')
    expect(await shell.coffer(['export', '-o', '.env'])).toMatchObject({
      code: 0,
      out: '',
      err: expect.stringMatching(/^Wrote \.env\.\n/),
    })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const text = readFileSync(file, 'utf8')
    expect(text).toContain('HOST=db\n')
    writeFileSync(file, 'mine')
    chmodSync(file, 0o644)
    expect(await shell.coffer(['export', '-o', '.env'])).toMatchObject({
      code: 2,
      err: `coffer: ${file} exists already.\ntry: --force\n`,
    })
    expect(readFileSync(file, 'utf8')).toBe('mine')
    expect(await shell.coffer(['export', '-o', '.env', '--force', '-q'])).toMatchObject({ code: 0, err: '' })
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(shell.cwd)).toEqual(['.env'])
  })

  test.each([
    ['a page', 'dotenv', 'text/html', '<h1>Sign in</h1>'],
    ['an object', 'shell', 'application/json', '{"status":"ok"}'],
    ['a list', 'json', 'application/json', '["ok"]'],
  ])('keep their content if %s comes instead of the secrets', async (_, format, type, body) => {
    const { url } = await startScripted((response) => response.writeHead(200, { 'content-type': type }).end(body))
    const shell = shellOf({ COFFER_URL: url })
    const file = join(shell.cwd, '.env')
    writeFileSync(file, 'mine')
    for (const target of [['-o', '.env', '--force'], []]) {
      const { code, out } = await shell.coffer(['export', '-f', format, ...target])
      expect({ code, out }).toEqual({ code: 1, out: '' })
    }
    expect(readFileSync(file, 'utf8')).toBe('mine')
  })

  test('a link is followed, a device or folder is refused', async () => {
    const shell = shellOf()
    mkdirSync(join(shell.cwd, 'folder'))
    writeFileSync(join(shell.cwd, 'folder', 'real'), 'old')
    symlinkSync('folder/real', join(shell.cwd, 'link'))
    symlinkSync('/dev/null', join(shell.cwd, 'device'))
    expect((await shell.coffer(['export', '-o', 'link', '--force'])).code).toBe(0)
    expect(readFileSync(join(shell.cwd, 'folder', 'real'), 'utf8')).toContain('HOST=db')
    for (const path of ['device', 'folder']) {
      const { code, err } = await shell.coffer(['export', '-o', path, '--force'])
      expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('is not a regular file.') })
    }
    expect(existsSync('/dev/null')).toBe(true)
    const absent = await shell.coffer(['export', '-o', 'nowhere/.env'])
    expect(absent).toMatchObject({
      code: 1,
      err: `coffer: ${join(shell.cwd, 'nowhere/.env')} cannot be written (ENOENT).\n`,
    })
  })

  test.each([
    { args: ['-f', 'xml'], code: 2 },
    { args: ['-f', 'yaml', '--json'], code: 2 },
    { args: ['--force'], code: 2 },
    { args: ['-f', 'github'], code: 2 },
    { args: ['-f', 'github', '-o', '-'], code: 2 },
    { args: ['-e', 'nowhere'], code: 5 },
    { args: ['-e', 'staging,production'], code: 2 },
  ])('refuses $args', async ({ args, code }) => {
    const shell = shellOf()
    expect(await shell.coffer(['export', ...args])).toMatchObject({ code, out: '' })
    expect(readdirSync(shell.cwd)).toEqual([])
  })

  test('a reference that cannot be resolved is an error unless asked otherwise', async () => {
    await fill('broken', new Map([['B', `\${ABSENT}!`]]))
    const shell = shellOf()
    expect(await shell.coffer(['export', '-e', 'broken', '-o', 'x'])).toMatchObject({
      code: 6,
      out: '',
      err: expect.stringMatching(
        /^coffer: B: holds a reference that cannot be resolved\.\ntry: .*--on-unresolved keep/,
      ),
    })
    expect((await shell.coffer(['export', '-e', 'broken', '--on-unresolved', 'empty'])).out).toBe(`B='!'\n`)
  })

  test('names the flag if the service cannot write a value in the format', async () => {
    const { code, err } = await shellOf().coffer(['export', '-f', 'docker'])
    expect(code).toBe(1)
    expect(err).toMatch(/^coffer: --format: docker cannot hold the value of .*\ntry: another --format/)
  })
})

test.each(['dotenv', 'json', 'yaml', 'csv', 'k8s', 'fish'])('says that %s has no secrets in it', async (format) => {
  const shell = openShell(running.env)
  expect(await shell.coffer(['export', '-e', 'staging', '-f', format])).toMatchObject({
    code: 0,
    err: 'main/api/staging has no secrets. try: coffer secrets set KEY -p api -e staging\n',
  })
})

test('--only exports these secrets in every kind of format, and names one that is missing', async () => {
  const shell = shellOf()
  expect(await shell.coffer(['export', '--only', 'PORT,URL', '-f', 'docker'])).toMatchObject({
    code: 0,
    out: 'PORT=5432\nURL=x://db\n',
  })
  expect((await shell.coffer(['export', '--only', 'URL', '--only', 'HOST', '-f', 'fish'])).out).toBe(
    "set -gx HOST 'db'\nset -gx URL 'x://db'\n",
  )
  const missing = await shell.coffer(['export', '--only', 'PORT,ABSENT'])
  expect(missing).toMatchObject({ code: 5, out: '', err: expect.stringContaining('There is no secret ABSENT') })
  expect(await shell.coffer(['export', '--only', 'PORT,'])).toMatchObject({ code: 2, out: '' })
})
