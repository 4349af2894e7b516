/** The built packages of the service, the command line and the client library work in an empty folder, without this repository. */

import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildPackage as buildCli } from '../../cli/build.ts'
import { readCommit } from '../../commit.ts'
import { buildPackage as buildSdk } from '../../sdk/build.ts'
import { setup as buildPages } from '../../test/built-dashboard.ts'
import { caller } from '../../test/caller.ts'
import { requirePrograms } from '../../test/debian-package.ts'
import { createProject, createToken, registerOwner } from '../../test/harness.ts'
import { type Listening, listening, type Settings, startCommand, startNode } from '../../test/program.ts'
import { setupCode } from '../../test/setup-code.ts'
import { nodeOptions, startEnvironment } from '../../test/start-command.ts'
import { buildPackage } from '../build.ts'
import { settings } from './setting.ts'
import { readVersion } from './version.ts'

await requirePrograms('strace')

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
let folder: string
let consumer: string
const trace = () => join(folder, 'trace')
const installed = (...names: string[]) => join(consumer, 'node_modules', ...names)

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'coffer-package-')))
  consumer = join(folder, 'consumer')
  await mkdir(consumer)
  await writeFile(join(consumer, 'package.json'), '{ "type": "module" }')
  await buildPages()
  const builders = { sdk: buildSdk, cli: buildCli, server: buildPackage }
  for (const [name, build] of Object.entries(builders)) {
    await build(join(folder, name))
    await run('npm', ['pack', join(folder, name), '--silent'], { cwd: consumer })
  }
  const files = globSync('*.tgz', { cwd: consumer }).map((name) => `./${name}`)
  await run('npm', ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...files], {
    cwd: consumer,
  })
})
afterAll(() => rm(folder, { recursive: true }))

/** Starts the command that npm linked, in the empty folder. */
function startServer(given: Settings = {}, before: readonly string[] = []): Promise<Listening> {
  const own = { COFFER_PORT: '0', COFFER_DATA_DIR: join(folder, 'data'), COFFER_SETUP_CODE: setupCode }
  const options = { ...own, ...given }
  const [command = '', ...args] = [...before, installed('.bin/coffer-server')]
  return listening(startCommand(command, args, options, { cwd: consumer }))
}

const server = (args: readonly string[], settings: Settings = {}) =>
  startCommand(installed('.bin/coffer-server'), args, settings, { cwd: consumer }).ended

const coffer = async (args: readonly string[], env: Settings, input = '') => {
  const running = startCommand(installed('.bin/coffer'), args, { HOME: folder, ...env }, { cwd: consumer })
  running.child.stdin?.end(input)
  return running.ended
}

test('npm installs it with prebuilt native code alone, and runs no script of any package', async () => {
  const lock = JSON.parse(await readFile(join(consumer, 'package-lock.json'), 'utf8'))
  const packages = Object.entries<{ hasInstallScript?: boolean; optional?: boolean }>(lock.packages)
  expect(packages.filter(([, { hasInstallScript }]) => hasInstallScript)).toEqual([])
  const needed = packages.filter(([name, { optional }]) => name !== '' && !optional).map(([name]) => name)
  expect(needed.toSorted()).toEqual([
    'node_modules/@coffer/cli',
    'node_modules/@coffer/sdk',
    'node_modules/@coffer/server',
    'node_modules/@node-rs/argon2',
  ])
  const { dependencies } = JSON.parse(readFileSync(installed('@coffer/server/package.json'), 'utf8'))
  for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
  expect(globSync('**/*.{ts,tsx,map}', { cwd: installed('@coffer/server') })).toEqual([])
})

test('it has the licence of every package whose code is in it', () => {
  const text = readFileSync(installed('@coffer/server/LICENSES-OF-PARTS.txt'), 'utf8')
  const parts = text.split(`\n${'-'.repeat(80)}\n\n`)
  for (const part of parts) expect(part).toMatch(/^\S+ \S+ \(\S+\)\n\n[\s\S]*(permission|redistribution)/i)
  const manifests = ['server', 'dashboard'].map((name) => readFileSync(join(root, name, 'package.json'), 'utf8'))
  const wanted = manifests.flatMap((manifest) => Object.keys(JSON.parse(manifest).dependencies))
  // Ours, and those that are in the package or beside it with their own licences.
  const isApart = (name: string) => /^@coffer\/|^@node-rs\/argon2$|^swagger-ui-dist$/.test(name)
  for (const name of ['tailwindcss', ...wanted.filter((one) => !isApart(one))]) {
    expect(
      parts.filter((part) => part.startsWith(`${name} `)),
      name,
    ).toHaveLength(1)
  }
})

test('the command names itself, its version and every setting', async () => {
  const { out, err, code } = await server(['--help'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/^Usage: coffer-server +run the service\n +coffer-server <command>$/m)
  for (const { name } of settings) expect(out).toContain(`  ${name} `)
  expect(out).not.toMatch(/npm|npx/)
  expect(await server(['--version'])).toMatchObject({ code: 0, out: `${readVersion()} (${readCommit()})\n` })
  expect(await server(['frobnicate'])).toMatchObject({ code: 2 })

  const older = "--import=data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.1.0'}})"
  expect(await server([], { NODE_OPTIONS: older })).toMatchObject({
    code: 1,
    err: 'coffer-server needs Node 24 or later; this is Node 20.1.0.\n',
  })
})

test('it starts, serves pages, and keeps secrets for command line and library; a second start finds them', async () => {
  const first = await startServer()
  const said = first.messages().join('\n')
  expect(said).toContain(`or in another terminal:\n  coffer login http://localhost:${first.port}\n`)
  expect(said).toContain(`http://localhost:${first.port}/setup`)
  // V8 and the allocator read these only at the start of the process: the package has the same as `npm start`.
  const words = (file: string) => readFileSync(`/proc/${first.program.child.pid}/${file}`, 'utf8').split('\0')
  const [firstLine = ''] = readFileSync(installed('.bin/coffer-server'), 'utf8').split('\n')
  // Linux before 5.1 cuts off the rest.
  expect(firstLine.length).toBeLessThanOrEqual(127)
  expect(nodeOptions.length).toBeGreaterThan(0)
  expect(words('cmdline')).toEqual(expect.arrayContaining([...nodeOptions]))
  expect(Object.keys(startEnvironment)).toHaveLength(2)
  expect(words('environ')).toEqual(
    expect.arrayContaining(Object.entries(startEnvironment).map(([name, value]) => `${name}=${value}`)),
  )

  const get = (path: string, accept = '*/*') => fetch(first.url + path, { headers: { accept } })
  expect((await get('/healthz')).status).toBe(200)
  const page = await (await get('/setup', 'text/html')).text()
  const [, script = ''] = /src="(\/assets\/[^"]+\.js)"/.exec(page) ?? []
  expect((await get(script)).headers.get('content-type')).toContain('javascript')
  expect(await (await get('/docs/static/swagger-ui-bundle.js')).text()).toContain('SwaggerUIBundle')
  expect(await (await get('/openapi.json')).json()).toMatchObject({ openapi: '3.1.0' })
  expect(await (await get('/logo/github-actions.svg')).text()).toContain('<svg')

  const service = { call: caller(first.url) }
  const { session } = await registerOwner(service)
  await createProject(service, session, 'api')
  const { token } = await createToken(service, session)
  const env = {
    COFFER_URL: first.url,
    COFFER_TOKEN: token,
    COFFER_WORKSPACE: 'main',
    COFFER_PROJECT: 'api',
    COFFER_ENVIRONMENT: 'development',
  }
  expect(await coffer(['secrets', 'set', 'KEY', '--stdin'], env, 'a secret value')).toMatchObject({ code: 0 })
  expect(await coffer(['run', '--', 'sh', '-c', 'echo "$KEY"'], env)).toMatchObject({ out: 'a secret value\n' })
  await writeFile(
    join(consumer, 'application.js'),
    `import { coffer } from '@coffer/sdk'\nconsole.log((await coffer()).get('KEY'))`,
  )
  const application = () => startNode([join(consumer, 'application.js')], env).ended
  expect(await application()).toMatchObject({ code: 0, err: '', out: 'a secret value\n' })
  const own = { COFFER_PORT: String(first.port), COFFER_DATA_DIR: join(folder, 'data') }
  expect(await server(['health'], own)).toMatchObject({ code: 0, err: '' })
  expect(await first.stop()).toMatchObject({ code: 0, err: '' })
  expect(await server(['health'], own)).toMatchObject({ code: 1 })
  expect(await server(['keys', 'status'], own)).toMatchObject({ code: 0, err: '' })

  const second = await startServer({ COFFER_PORT: String(first.port) }, [
    'strace',
    '-D',
    '-f',
    '-z',
    '-e',
    'openat,open',
    '-o',
    trace(),
  ])
  expect(await application()).toMatchObject({ code: 0, err: '', out: 'a secret value\n' })
  expect((await fetch(`${second.url}/setup`, { headers: { accept: 'text/html' } })).status).toBe(200)
  expect(await second.stop()).toMatchObject({ code: 0 })
  const opened = [...readFileSync(trace(), 'utf8').matchAll(/open(?:at)?\([^"]*"([^"]+)"/g)].map(
    ([, path = '']) => path,
  )
  const realNode = await realpath(process.execPath)
  expect(opened.some((path) => path.startsWith(installed('@coffer/server/lib/app-')))).toBe(true)
  expect(opened.filter((path) => path.startsWith(root) && path !== realNode)).toEqual([])
})

test('every module that the service loads later is whole', async () => {
  const modules = globSync('lib/*.js', { cwd: installed('@coffer/server') })
  const later = modules.filter((name) => !/^lib\/(main|sqlite-checkpoint)\b/.test(name))
  expect(later.length).toBeGreaterThan(20)
  const urls = later.map((name) => pathToFileURL(installed('@coffer/server', name)).href)
  const program = `for (const url of ${JSON.stringify(urls)}) await import(url)`
  expect(await startNode(['--input-type=module', '--eval', program]).ended).toMatchObject({ code: 0, err: '' })

  const [thread = ''] = modules.filter((name) => name.startsWith('lib/sqlite-checkpoint'))
  const worker = new Worker(installed('@coffer/server', thread), { workerData: join(folder, 'alone.db') })
  const answer = new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  worker.postMessage('checkpoint')
  expect(await answer).toBe('done')
  worker.postMessage('close')
})
