/** The GitHub action, run as a runner would: its steps in bash, against a real service and a real issuer of identities. */
import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { buildPackage } from '../cli/build.ts'
import { version } from '../cli/src/version.ts'
import { createIdentity, loopbackAllowed, startIssuer, type TestIssuer } from './issuer.ts'
import { type SdkService, startSdkService } from './sdk-service.ts'
import { isDeep } from './tier.ts'

const root = join(import.meta.dirname, '..')
const actionFolder = join(root, 'deploy/github-action')

type Step = { readonly id?: string; readonly run: string; readonly shell: string; readonly env: Record<string, string> }
type Action = {
  readonly inputs: Record<
    string,
    { readonly description: string; readonly required?: boolean; readonly default?: string }
  >
  readonly outputs: Record<string, { readonly value: string }>
  readonly runs: { readonly using: string; readonly steps: readonly Step[] }
}
const action: Action = parse(readFileSync(join(actionFolder, 'action.yml'), 'utf8'))

const values = {
  PLAIN: 'plain-canary-1',
  CERTIFICATE: '-----BEGIN CANARY-----\nfirst-canary-line\nsecond-canary-line\n-----END CANARY-----\n',
  PERCENT: 'half%0Acanary%25done',
  COMMAND: '::stop-commands::canary-token\nEOF\nPATH=/canary-path',
  QUOTES: `a"quoted" \\canary\\ 'value'`,
  SPACES: '  canary with spaces  ',
  UNICODE: 'canary-ключ-🔑',
  SHORT: 'true',
  EMPTY: '',
}

let running: SdkService
let issuer: TestIssuer
let lastAudience: string | null
beforeAll(async () => {
  running = await startSdkService({ ...loopbackAllowed, COFFER_EXCHANGE_RATE_LIMIT: '0' })
  await running.write(values)
  issuer = await startIssuer()
  issuer.answer = (request, response) => {
    const url = new URL(request.url ?? '', issuer.url)
    if (url.pathname !== '/idtoken') return false
    lastAudience = url.searchParams.get('audience')
    const claims = { sub: 'repo:octo/app:ref:refs/heads/main', aud: lastAudience, repository_id: '4711' }
    const isAllowed = request.headers.authorization === 'Bearer request-token'
    issuer
      .sign(claims)
      .then((value) =>
        response
          .writeHead(isAllowed ? 200 : 401, { 'content-type': 'application/json' })
          .end(JSON.stringify({ value })),
      )
    return true
  }
  const body = { issuer: issuer.url, audience: running.service.url, claims: { repository_id: '4711' } }
  await createIdentity(running.service, running.session, body)
})
afterAll(async () => {
  await running.stop()
  await issuer.stop()
})

type Inputs = Readonly<Record<string, string>>
type Job = {
  readonly code: number | null
  readonly log: string
  readonly masks: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>> | undefined
  readonly workspace: string
}

const identity = () => ({
  ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/idtoken?api-version=2.0`,
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'request-token',
})

/** What a runner does with a composite action, as far as ours uses it. */
async function runAction(
  inputs: Inputs,
  env: Readonly<Record<string, string>> = {},
  { path = actionFolder }: { readonly path?: string } = {},
): Promise<Job> {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-runner-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const inside = (name: string) => join(folder, name)
  for (const name of ['temp', 'work', 'home']) mkdirSync(inside(name))
  for (const name of ['env', 'output']) writeFileSync(inside(name), '')
  const place = { url: running.service.url, workspace: 'main', project: 'api', environment: 'development' }
  const given: Inputs = { ...place, ...inputs }
  expect(Object.keys(action.inputs)).toEqual(expect.arrayContaining(Object.keys(given)))
  const evaluate = (text: string) =>
    text.replace(/\$\{\{ inputs\.([\w-]+) \}\}/g, (_, name) => given[name] ?? action.inputs[name]?.default ?? '')
  const runner = {
    PATH: process.env.PATH,
    HOME: inside('home'),
    TMPDIR: tmpdir(),
    CI: 'true',
    GITHUB_ACTIONS: 'true',
    GITHUB_ACTION_PATH: path,
    GITHUB_ENV: inside('env'),
    GITHUB_OUTPUT: inside('output'),
    GITHUB_REF: 'refs/heads/main',
    GITHUB_REPOSITORY_ID: '4711',
    GITHUB_REPOSITORY_OWNER_ID: '42',
    RUNNER_TEMP: inside('temp'),
    ...env,
  }
  let log = ''
  let code: number | null = 0
  for (const [index, step] of action.runs.steps.entries()) {
    const script = inside(`step-${index}.sh`)
    writeFileSync(script, step.run)
    const own = Object.fromEntries(Object.entries(step.env).map(([name, text]) => [name, evaluate(text)]))
    const child = spawn('bash', ['--noprofile', '--norc', '-eo', 'pipefail', script], {
      cwd: inside('work'),
      env: { ...runner, ...own },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (log += text))
    code = await new Promise((resolve) => child.once('close', resolve))
    if (code !== 0) break
  }
  const outputs = readCommandFile(inside('output'))
  return {
    code,
    log,
    masks: [...log.matchAll(/^::add-mask::(.*)$/gm)].map(([, data = '']) => unescapeData(data)),
    variables: readCommandFile(inside('env')),
    secrets: outputs.secrets === undefined ? undefined : JSON.parse(outputs.secrets),
    workspace: inside('work'),
  }
}

const unescapeData = (data: string) => data.replaceAll('%0D', '\r').replaceAll('%0A', '\n').replaceAll('%25', '%')

/** `NAME=value` and `NAME<<DELIMITER`, as the runner reads $GITHUB_ENV and $GITHUB_OUTPUT. */
function readCommandFile(path: string): Record<string, string> {
  if (!statSync(path).isFile()) return {}
  const found: Record<string, string> = {}
  const lines = readFileSync(path, 'utf8').split('\n')
  while (lines.length > 1) {
    const line = lines.shift() ?? ''
    const [, name = '', delimiter] = /^([^=]+?)<<(.+)$/.exec(line) ?? []
    if (delimiter === undefined) {
      found[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1)
      continue
    }
    const end = lines.indexOf(delimiter)
    expect(end, name).toBeGreaterThanOrEqual(0)
    found[name] = lines
      .splice(0, end + 1)
      .slice(0, -1)
      .join('\n')
  }
  return found
}

/** The log as the runner shows it. */
function shownLog({ log, masks }: Job): string {
  const lines = log.split('\n').filter((line) => !line.startsWith('::add-mask::'))
  return masks.reduce((text, mask) => text.replaceAll(mask, '***'), lines.join('\n'))
}

test('is a composite action, and no script contains an expression, which could be an injection', () => {
  expect(action.runs.using).toBe('composite')
  for (const { run, shell } of action.runs.steps) {
    expect(shell).toBe('bash')
    expect(run).not.toContain('${{')
  }
  const used = action.runs.steps.flatMap(({ env }) => Object.values(env)).join()
  for (const name of Object.keys(action.inputs)) expect(used).toContain(`\${{ inputs.${name} }}`)
})

test('sets a variable for each secret, with the identity of the job and without a stored credential', async () => {
  const job = await runAction({}, identity())
  expect(job.code, job.log).toBe(0)
  expect(job.variables).toEqual(values)
  expect(lastAudience).toBe(running.service.url)
  expect(job.secrets).toBeUndefined()
})

test('fails for a name that makes programs run code, unless the inputs say otherwise', async () => {
  const environment = 'variables'
  const path = '/v1/workspace/main/project/api'
  const post = (to: string, body: object) =>
    running.service.call('POST', `${path}/${to}`, { token: running.session, body })
  await post('environment', { name: environment })
  const secrets = Object.entries({ JAVA_OPTS: 'java-canary', BASH_ENV: 'bash-canary', REDIS_OPTS: 'kept-canary' })
  await post('secret', { environments: [environment], secrets: secrets.map(([key, value]) => ({ key, value })) })
  const refused = await runAction({ environment }, identity())
  expect(refused).toMatchObject({ code: 1, variables: {} })
  expect(refused.log).toContain('BASH_ENV (a shell obeys it), JAVA_OPTS (Java obeys it)')
  const left = await runAction({ environment, strict: 'false', 'allow-names': 'JAVA_OPTS' }, identity())
  expect(left.code, left.log).toBe(0)
  expect(left.variables).toEqual({ JAVA_OPTS: 'java-canary', REDIS_OPTS: 'kept-canary' })
  expect(left.masks).toContain('bash-canary')
  expect(left.log).toContain('Left out of the variables: BASH_ENV')
  const none = await runAction({ environment, 'export-env': 'false', outputs: 'BASH_ENV' }, identity())
  expect(none).toMatchObject({ code: 0, variables: {}, secrets: { BASH_ENV: 'bash-canary' } })
})

test('masks each line of every value, and shows none of them', async () => {
  const job = await runAction({ outputs: Object.keys(values).join(',') }, identity())
  const lines = Object.values(values).flatMap((value) => value.split('\n').map((line) => line.trim()))
  expect(job.masks).toEqual(expect.arrayContaining(lines.filter((line) => line.length >= 6)))
  expect(job.masks).not.toContain('true')
  expect(shownLog(job)).not.toContain('canary')
  const asPrinted = { ...job, log: `${job.log}\n${JSON.stringify(job.secrets)}` }
  expect(shownLog(asPrinted)).not.toContain('canary')
})

test('masks before it exports: if the variables cannot be written, the masks are in the log already', async () => {
  const job = await runAction({}, { ...identity(), GITHUB_ENV: root })
  expect(job.code).toBe(1)
  expect(job.masks).toContain(values.PLAIN)
  expect(job.log).toContain('::error title=Coffer::The secrets could not be read (exit code 1')
})

test('takes a token, which it masks, and asks nobody for an identity', async () => {
  const before = issuer.requests.length
  const job = await runAction({ token: running.token })
  expect(job.code, job.log).toBe(0)
  expect(job.masks[0]).toBe(running.token)
  expect(job.variables).toEqual(values)
  expect(issuer.requests.length).toBe(before)
  expect(shownLog(job)).not.toContain(running.token)
})

test('writes the named secrets as one output, and only those', async () => {
  const job = await runAction({ 'export-env': 'false', outputs: 'PLAIN\nCERTIFICATE, QUOTES' }, identity())
  expect(job.code, job.log).toBe(0)
  const { PLAIN, CERTIFICATE, QUOTES } = values
  expect(job.secrets).toEqual({ PLAIN, CERTIFICATE, QUOTES })
  expect(job.variables).toEqual({})
  expect(job.masks).toContain(PLAIN)
  const missing = await runAction({ outputs: 'ABSENT' }, identity())
  expect(missing.code).toBe(1)
  expect(missing.log).toContain('::error title=Coffer::There is no secret ABSENT in this environment.')
})

test('writes a file that only the job can read, and replaces none', async () => {
  const job = await runAction({ 'export-env': 'false', file: 'secrets.json', format: 'json' }, identity())
  expect(job.code, job.log).toBe(0)
  const file = join(job.workspace, 'secrets.json')
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(values)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(job.masks).toContain(values.PLAIN)
  const again = await runAction({ file, format: 'json' }, identity())
  expect(again.code).toBe(1)
  expect(again.log).toContain('exists already')
})

test('says how to allow an identity that is refused, with the id of the request', async () => {
  const job = await runAction({ audience: 'https://other.example.com' }, identity())
  expect(job.code).toBe(1)
  expect(lastAudience).toBe('https://other.example.com')
  const [, id] = /request id ([\w-]{8,})\)/.exec(job.log) ?? []
  expect(id, job.log).toBeDefined()
  expect(job.log).toMatch(/^::error title=Coffer::The service does not accept the identity of this job/m)
  expect(job.log).toContain('the audience https://other.example.com and claims such as repository_id 4711')
  expect(job.variables).toEqual({})
})

test.each<[string, Inputs, Readonly<Record<string, string>>, string]>([
  ['a token that is wrong', { token: 'coffer_live_wrong' }, {}, 'does not accept the token'],
  ['a job without an identity', {}, {}, 'give it `permissions: id-token: write`, or set the input `token`'],
  ['a project that does not exist', { project: 'absent' }, {}, 'could not be read (exit code 5'],
  ['a wrong value of export-env', { 'export-env': 'yes' }, {}, '`export-env` must be true or false'],
  ['a package that is not there', { cli: '@coffer/cli' }, {}, '`cli` must be the path of a package'],
])('refuses %s', async (_, inputs, env, message) => {
  const isJobWithIdentity = inputs.token === undefined && Object.keys(inputs).length > 0
  const job = await runAction(inputs, { ...(isJobWithIdentity && identity()), ...env })
  expect(job.code, job.log).toBe(1)
  expect(job.log).toContain('::error title=Coffer::')
  expect(job.log).toContain(message)
  expect(job.variables).toEqual({})
})

async function expectInstallation(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-action-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const checkout = join(folder, 'checkout')
  const tracked = execFileSync(
    'git',
    [
      'ls-files',
      '*.js',
      'commit.ts',
      'cli',
      'sdk',
      'contract',
      'deploy',
      '*package.json',
      '*.npmrc',
      'package-lock.json',
    ],
    {
      cwd: root,
      encoding: 'utf8',
    },
  )
  for (const name of tracked.trim().split('\n')) {
    if (!existsSync(join(root, name))) continue
    mkdirSync(dirname(join(checkout, name)), { recursive: true })
    cpSync(join(root, name), join(checkout, name))
  }
  // Everything is in the cache of npm since the installation of this repository.
  const npm = { npm_config_cache: join(process.env.HOME ?? '', '.npm'), npm_config_offline: 'true' }
  const path = join(checkout, 'deploy/github-action')
  const own = await runAction({ token: running.token }, npm, { path })
  expect(own.code, own.log).toBe(0)
  expect(own.variables).toEqual(values)
  expect(existsSync(join(checkout, 'node_modules/vitest'))).toBe(false)

  await buildPackage(join(folder, 'built'))
  execFileSync('npm', ['pack', '--silent', join(folder, 'built')], { cwd: folder })
  const cli = join(folder, `coffer-cli-${version}.tgz`)
  const packed = await runAction({ token: running.token, cli }, npm, { path: join(folder, 'elsewhere/action') })
  expect(packed.code, packed.log).toBe(0)
  expect(packed.variables).toEqual(values)
}

// Two installations by npm take half of the time of this file.
if (isDeep) test('installs the command line of its own checkout, and of a package', expectInstallation)
