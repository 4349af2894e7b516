/** The examples of docs/ci.md and docs/integration.md, run as far as this machine allows. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { buildPackage } from '../cli/build.ts'
import { isInstalled, requirePrograms } from './debian-package.ts'
import { createIdentity, loopbackAllowed, startIssuer } from './issuer.ts'
import { blocksOf } from './page-block.ts'
import { type SdkService, startSdkService } from './sdk-service.ts'

await requirePrograms('direnv', 'python3')

const root = join(import.meta.dirname, '..')
const secrets = {
  DATABASE_URL: 'postgres://canary:p%40ss$word@db/app?a=1&b="2"',
  TLS_KEY: '-----BEGIN KEY-----\ncanary-line\n-----END KEY-----\n',
  VITE_TITLE: 'canary-title',
}

let running: SdkService
let bin: string
beforeAll(async () => {
  running = await startSdkService(loopbackAllowed)
  const { service, session } = running
  const list = Object.entries(secrets).map(([key, value]) => ({ key, value }))
  const body = { environments: ['production'], secrets: list }
  const { status } = await service.call('POST', '/v1/workspace/main/project/api/secret', { token: session, body })
  expect(status).toBe(201)
  bin = mkdtempSync(join(tmpdir(), 'coffer-bin-'))
  addProgram(bin, 'coffer', `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'cli/start.js')}' "$@"\n`)
})
afterAll(async () => {
  await running.stop()
  rmSync(bin, { recursive: true })
})

function addProgram(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, name), text)
  chmodSync(join(folder, name), 0o755)
}

/** Blocks of code in a section of a page, with the address of the running service. */
function blocks(page: string, section: string, language: string): string[] {
  return blocksOf(page)
    .filter((one) => one.section === section && one.language === language)
    .map(({ code }) => code.trimEnd().replaceAll('https://coffer.example.com', running.service.url))
}

function block(page: string, section: string, language: string): string {
  const [first] = blocks(page, section, language)
  if (first === undefined) throw new Error(`${page} has no block of ${language} in "${section}"`)
  return first
}

const integration = 'docs/integration.md'

function openFolder(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-example-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) addProgram(folder, name, text)
  return folder
}

type Ended = { readonly code: number; readonly out: string; readonly err: string }
type Variables = Readonly<Record<string, string | undefined>>

/** What somebody types, in bash, with `coffer` and the given programs in the PATH. */
function runScript(script: string, cwd: string, env: Variables = {}): Promise<Ended> {
  const place = { ...running.env, COFFER_ENVIRONMENT: 'production' }
  const base = { PATH: `${cwd}:${bin}:${process.env.PATH}`, HOME: cwd, TMPDIR: tmpdir() }
  return new Promise((resolve) => {
    const child = execFile('bash', ['-c', script], { cwd, env: { ...base, ...place, ...env } }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    )
    child.stdin?.end()
  })
}

/** Prints a variable as it is. */
const printer = (name: string) => `#!/bin/sh\nprintf %s "$${name}"\n`

describe('applications', () => {
  test('Node', async () => {
    const folder = openFolder({ 'server.js': 'process.stdout.write(process.env.DATABASE_URL)' })
    const { out, err } = await runScript(block(integration, 'Node', 'sh'), folder)
    expect(out, err).toBe(secrets.DATABASE_URL)
  })

  test('Python', async () => {
    const folder = openFolder({ 'app.py': 'import os, sys\nsys.stdout.write(os.environ["DATABASE_URL"])\n' })
    const { out, err } = await runScript(block(integration, 'Python', 'sh'), folder)
    expect(out, err).toBe(secrets.DATABASE_URL)
  })

  test('Go: its program starts with the secrets', async () => {
    const folder = openFolder({ go: printer('DATABASE_URL') })
    const { out, err } = await runScript(block(integration, 'Go', 'sh'), folder)
    expect(out, err).toBe(secrets.DATABASE_URL)
  })

  test('Next.js: its scripts start with the secrets', async () => {
    const folder = openFolder({ 'package.json': block(integration, 'Next.js', 'json'), next: printer('DATABASE_URL') })
    for (const script of ['dev', 'build', 'start']) {
      expect((await runScript(`npm run --silent ${script}`, folder)).out, script).toBe(secrets.DATABASE_URL)
    }
  })

  test('Vite: only names with VITE_ get into the bundle', async () => {
    const page = '<script type="module" src="/main.js"></script>'
    const code = 'console.log(import.meta.env.VITE_TITLE, import.meta.env.DATABASE_URL)'
    const folder = openFolder({
      'package.json': block(integration, 'Vite', 'json'),
      'index.html': page,
      'main.js': code,
    })
    const { code: ended, err, out } = await runScript('npm run --silent build', folder)
    expect(ended, out + err).toBe(0)
    const assets = join(folder, 'dist/assets')
    const bundle = readdirSync(assets).map((name) => readFileSync(join(assets, name), 'utf8'))
    expect(bundle.join()).toContain(secrets.VITE_TITLE)
    expect(bundle.join()).not.toContain('canary:p')
  })
})

describe('direnv', () => {
  const envrc = () => block(integration, 'direnv', 'sh')
  const load = `direnv allow . && direnv exec . sh -c 'printf %s "$DATABASE_URL|$TLS_KEY|\${secrets-unset}"'`

  test('loads every secret as it is', async () => {
    const { out, err } = await runScript(load, openFolder({ '.envrc': envrc(), '.coffer.json': '{}' }))
    // A shell removes no line break from a variable.
    expect(out, err).toBe(`${secrets.DATABASE_URL}|${secrets.TLS_KEY}|unset`)
  })

  test('says so if the secrets cannot be read, and loads none', async () => {
    const folder = openFolder({ '.envrc': envrc() })
    const { code, out, err } = await runScript(load, folder, { COFFER_URL: 'http://127.0.0.1:1' })
    expect(code).not.toBe(0)
    expect(out).toBe('')
    expect(err).toContain('cannot be reached')
  })
})

/** `docker run` as far as the examples use it; the env file in the grammar of Docker: no quotes, no escapes. */
const fakeDocker = `#!${process.execPath}
const { readFileSync } = require('node:fs')
const [command, ...words] = process.argv.slice(2)
if (command === 'compose') {
  console.log(JSON.stringify(process.env))
  process.exit()
}
const env = {}
const mounts = []
while (words[0].startsWith('-')) {
  const flag = words.shift()
  if (flag === '--rm') continue
  const value = words.shift()
  const [name, ...rest] = value.split('=')
  if (flag === '-e') env[name] = value.includes('=') ? rest.join('=') : process.env[name]
  if (flag === '-v') mounts.push(value.split(':'))
  if (flag !== '--env-file') continue
  for (const line of readFileSync(value, 'utf8').split('\\n')) {
    if (line === '' || line.startsWith('#')) continue
    const at = line.indexOf('=')
    env[line.slice(0, at)] = line.slice(at + 1)
  }
}
console.log(JSON.stringify({ env, mounts, image: words[0] }))
`

describe('Docker', () => {
  test('the image starts its program with the secrets, and without the token', async () => {
    const folder = openFolder({
      'server.js': 'console.log(JSON.stringify(process.env))',
      docker: fakeDocker,
      'api-token': running.token,
    })
    const [command = ''] = blocks(integration, 'Docker', 'sh')
    const { out, err } = await runScript(command, folder)
    const { env, mounts, image } = JSON.parse(out || `"${err}"`)
    expect(image).toBe('example/api')
    expect(mounts).toEqual([['/etc/coffer/api-token', env.COFFER_TOKEN_FILE, 'ro']])

    const dockerfile = block(integration, 'Docker', 'dockerfile')
    const [entry, words] = ['ENTRYPOINT', 'CMD'].map((name) =>
      JSON.parse(new RegExp(`^${name} (.*)$`, 'm').exec(dockerfile)?.[1] ?? '[]'),
    )
    const inside = { ...env, COFFER_TOKEN: undefined, COFFER_TOKEN_FILE: join(folder, 'api-token') }
    const started = await runScript([...entry, ...words].join(' '), folder, inside)
    expect(JSON.parse(started.out || `"${started.err}"`)).toMatchObject(secrets)
    expect(started.out).not.toContain(running.token)
    expect(started.out).not.toContain('COFFER_TOKEN')
  })

  test('a container gets the variables that are named, line breaks included', async () => {
    const [, command = ''] = blocks(integration, 'Docker', 'sh')
    const { out, err } = await runScript(command, openFolder({ docker: fakeDocker }))
    const { DATABASE_URL, TLS_KEY } = secrets
    expect(JSON.parse(out || `"${err}"`).env).toEqual({ DATABASE_URL, TLS_KEY })
  })

  test('an env file holds values of one line; no container starts without the others', async () => {
    const folder = openFolder({ docker: fakeDocker })
    const [, , command = ''] = blocks(integration, 'Docker', 'sh')
    const refused = await runScript(command, folder)
    expect(refused.out).toBe('')
    expect(refused.err).toContain('TLS_KEY')
    await running.write({ ONE_LINE: secrets.DATABASE_URL })
    const { out, err } = await runScript(command, folder, { COFFER_ENVIRONMENT: 'development' })
    expect(JSON.parse(out || `"${err}"`).env).toEqual({ ONE_LINE: secrets.DATABASE_URL })
    expect(readdirSync(folder)).not.toContain('api.env')
  })

  test('Compose gets the variables that its file names', async () => {
    const page = readFileSync(join(root, integration), 'utf8')
    const [, command = ''] = /`(coffer run -- docker compose up)`/.exec(page) ?? []
    const { out, err } = await runScript(command, openFolder({ docker: fakeDocker }))
    const env = JSON.parse(out || `"${err}"`)
    const file = parse(block(integration, 'Docker Compose', 'yaml'))
    expect(file.services.api.environment).toEqual({ DATABASE_URL: null })
    expect(env).toMatchObject(secrets)
    expect(env[file.secrets['tls-key'].environment]).toBe(secrets.TLS_KEY)
    expect(file.services.api.secrets).toEqual(Object.keys(file.secrets))
  })
})

describe('systemd', () => {
  test('the unit starts the program with the secrets and keeps a cache in its own folder', async () => {
    const folder = openFolder({ 'coffer-token': running.token, 'server.js': printer('') })
    writeFileSync(join(folder, 'server.js'), 'process.stdout.write(process.env.DATABASE_URL)')
    mkdirSync(join(folder, 'api'))
    const unit = block(integration, 'systemd', 'ini')
      .replaceAll('%d', folder)
      .replaceAll('%C', folder)
      .replace('/usr/local/bin/coffer', join(bin, 'coffer'))
      .replace('/usr/bin/node', process.execPath)
      .replace('/srv/api', folder)
    const lines = (name: string) => [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, text = '']) => text)
    const env = Object.fromEntries(
      lines('Environment')
        .flatMap((line) => line.split(' '))
        .map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]),
    )
    const { out, err } = await runScript(lines('ExecStart').join(), folder, { ...env, COFFER_TOKEN: undefined })
    expect(out, err).toBe(secrets.DATABASE_URL)
    expect(readdirSync(join(folder, 'api/coffer'))).toHaveLength(1)
    if (isInstalled('systemd-analyze')) {
      writeFileSync(join(folder, 'api.service'), `${unit}\n`)
      const verdict = await runScript('systemd-analyze verify ./api.service', folder)
      expect(verdict.err).not.toMatch(/api\.service:\d+/)
    }
  })
})

describe('Kubernetes', () => {
  type Store = {
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly result: { readonly jsonPath: string }
  }

  /** One request, as the webhook provider makes it: templates filled in, and a path into the JSON of the answer. */
  async function request({ url, headers, result }: Store, key: string): Promise<unknown> {
    const fill = (text: string) =>
      text.replaceAll('{{ .remoteRef.key }}', encodeURIComponent(key)).replaceAll('{{ .coffer.token }}', running.token)
    const filled = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, fill(text)]))
    const answer = await fetch(fill(url), { headers: filled })
    if (answer.status !== 200) return answer.status
    const steps = [...result.jsonPath.matchAll(/\.(\w+)|\[(\d+)\]/g)].map(([, name, index]) => name ?? Number(index))
    return steps.reduce<unknown>((value, step) => Object(value)[step], await answer.json())
  }

  test('the stores of the External Secrets Operator find one secret, and all', async () => {
    const section = 'Kubernetes with the External Secrets Operator'
    const documents = parseAllDocuments(block(integration, section, 'yaml')).map((document) => document.toJS())
    const storeOf = (name: string): Store =>
      documents.find(({ kind, metadata }) => kind === 'SecretStore' && metadata.name === name).spec.provider.webhook
    const [one, all] = documents.filter(({ kind }) => kind === 'ExternalSecret').map(({ spec }) => spec)
    const [{ remoteRef }] = one.data
    expect(await request(storeOf(one.secretStoreRef.name), remoteRef.key)).toBe(secrets.DATABASE_URL)
    expect(await request(storeOf(one.secretStoreRef.name), 'ABSENT')).toBe(404)
    expect(await request(storeOf(all.secretStoreRef.name), all.dataFrom[0].extract.key)).toEqual(secrets)
  })
})

describe('Terraform', () => {
  test('the http data source gets every secret as JSON', async () => {
    const [, source = ''] = blocks(integration, 'Terraform', 'hcl')
    const [, url = ''] = /^ +url = "(.*)"$/m.exec(source) ?? []
    const [, header = ''] = /^ +Authorization = "(.*)"$/m.exec(source) ?? []
    const headers = { Authorization: header.replace(`\${var.coffer_token}`, running.token) }
    const answer = await fetch(url, { headers })
    expect([answer.status, await answer.json()]).toEqual([200, secrets])
  })

  test('gets its variables from coffer run', async () => {
    const folder = openFolder({ terraform: printer('TF_VAR_DATABASE_URL') })
    const { out, err } = await runScript(block(integration, 'Terraform', 'sh'), folder)
    expect(out, err).toBe(secrets.DATABASE_URL)
  })
})

describe('CI', () => {
  test('GitHub Actions: the workflows use inputs that the action has', () => {
    const action = parse(readFileSync(join(root, 'deploy/github-action/action.yml'), 'utf8'))
    const [workflow = '', step = ''] = blocks('docs/ci.md', 'GitHub Actions', 'yaml')
    const { permissions, jobs } = parse(workflow)
    expect(permissions).toEqual({ contents: 'read', 'id-token': 'write' })
    for (const used of [...jobs.deploy.steps, ...parse(step)]) {
      if (!used.uses?.includes('/coffer/')) continue
      expect(used.uses).toMatch(/^my-org\/coffer\/deploy\/github-action@[0-9a-f]{40}$/)
      expect(Object.keys(action.inputs)).toEqual(expect.arrayContaining(Object.keys(used.with)))
    }
    const page = readFileSync(join(root, 'docs/ci.md'), 'utf8')
    const rows = [...page.matchAll(/^\| (`[\w`, -]+`) \|/gm)].flatMap(([, names = '']) =>
      names.replaceAll('`', '').split(', '),
    )
    expect(rows.sort()).toEqual(Object.keys(action.inputs).sort())
  })

  test('GitLab: the identity of the job is enough, and values are hidden in the log', async () => {
    const issuer = await startIssuer()
    onTestFinished(() => issuer.stop())
    const [deploy, settings] = blocks('docs/ci.md', 'GitLab CI', 'yaml').map((text) => parse(text))
    const { id_tokens, variables, before_script, script } = deploy.deploy
    const audience = id_tokens.COFFER_ID_TOKEN.aud
    const identity = { issuer: issuer.url, audience, claims: { project_id: '20', ref_protected: 'true' } }
    await createIdentity(running.service, running.session, identity)
    const claims = { aud: audience, sub: 'project_path:group/app:ref_type:branch:ref:main' }
    const token = await issuer.sign({ ...claims, project_id: '20', ref_protected: 'true' })

    const deployScript = '#!/bin/sh\necho "url=$DATABASE_URL token=$(printenv COFFER_ID_TOKEN || echo none)"\n'
    const folder = openFolder({ 'deploy.sh': deployScript })
    await buildPackage(join(folder, 'built'))
    const npm = { HOME: process.env.HOME, npm_config_prefix: folder, npm_config_offline: 'true' }
    const packed = await runScript('mkdir tools && cd tools && npm pack --silent ../built', folder, npm)
    expect(packed.code, packed.err).toBe(0)
    const installed = await runScript(before_script.join('\n'), folder, npm)
    expect(installed.code, installed.err).toBe(0)

    const PATH = `${join(folder, 'bin')}:${process.env.PATH}`
    const job = { ...variables, COFFER_ID_TOKEN: token, COFFER_TOKEN: undefined, CI: 'true', PATH }
    expect(await runScript(script.join('\n'), folder, job)).toEqual({ code: 0, out: 'url=*** token=none\n', err: '' })
    const stranger = await issuer.sign({ ...claims, project_id: '21', ref_protected: 'true' })
    const refused = await runScript(script.join('\n'), folder, { ...job, COFFER_ID_TOKEN: stranger })
    expect(refused).toMatchObject({ code: 125, out: '' })

    await running.write({ REGION: 'eu-central-1', ONE_LINE: 'x' })
    await runScript(settings.settings.script.join('\n'), folder, { ...job, COFFER_ENVIRONMENT: 'development' })
    const report = readFileSync(join(folder, settings.settings.artifacts.reports.dotenv), 'utf8')
    expect(report).toBe('ONE_LINE=x\nREGION=eu-central-1\n')
  })
})
