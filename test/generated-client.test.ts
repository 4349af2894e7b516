/** Clients that generators from npm write from the OpenAPI document compile strictly and work, in every area. */
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createProject, registerOwner, startService, type TestService, type TestUser } from './harness.ts'

const run = promisify(execFile)
const vendor = join(import.meta.dirname, 'vendor')
// Generators are installed by the deep tier alone: test/vendor/package.json.
const bin = join(vendor, 'node_modules')

/** The generators, started in the folder that holds the document; each writes into `client`. */
const generators: [name: string, command: string[]][] = [
  ['openapi-typescript', ['openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'client/schema.ts']],
  ['hey-api', ['@hey-api/openapi-ts/bin/run.js', '--no-log-file']],
  [
    'swagger-typescript-api',
    ['swagger-typescript-api/dist/cli.mjs', 'generate', '-p', 'openapi.json', '-o', 'client', '-n', 'api.ts'],
  ],
]
const heyApi = { input: 'openapi.json', output: { path: 'client', module: { extension: '.js' } } }
const typeRoots = [join(import.meta.dirname, '..', 'node_modules', '@types')]
const compilerOptions = {
  ...{ target: 'es2023', module: 'nodenext', types: ['node'], typeRoots, outDir: 'built', rootDir: '.' },
  ...{ strict: true, noImplicitOverride: true, noFallthroughCasesInSwitch: true, skipLibCheck: true },
}

let service: TestService
let owner: TestUser
let areas: string[]
let document: string

beforeEach(async () => {
  service = await startService()
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
  const { text, body } = await service.call<{ tags: { name: string }[] }>('GET', '/openapi.json')
  document = text
  areas = body.tags.map(({ name }) => name)
})
afterEach(() => service.stop())

/** Generates, compiles and runs a client in a folder of its own, and returns what its calls returned. */
async function tryClient(name: string, [script = '', ...words]: string[]): Promise<unknown> {
  const cwd = await mkdtemp(join(tmpdir(), 'coffer-client-'))
  try {
    await mkdir(join(cwd, 'client'))
    await symlink(bin, join(cwd, 'node_modules'))
    await writeFile(join(cwd, 'package.json'), '{ "type": "module" }')
    await writeFile(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts', 'client'] }))
    await writeFile(join(cwd, 'openapi.json'), document)
    await writeFile(join(cwd, 'openapi-ts.config.js'), `export default ${JSON.stringify(heyApi)}`)
    await copyFile(join(vendor, 'generated-client', `${name}.ts`), join(cwd, 'call.ts'))
    await run(process.execPath, [join(bin, script), ...words], { cwd })
    await requireChecked(join(cwd, 'client', 'api.ts'))
    const compiled = await run(process.execPath, [join(bin, 'typescript/bin/tsc')], { cwd }).catch((error) => error)
    expect(compiled.stdout).toBe('')
    const { stdout } = await run(process.execPath, ['built/call.js', service.url, owner.session], { cwd })
    return JSON.parse(stdout)
  } finally {
    await rm(cwd, { recursive: true, force: true })
  }
}

/** One generator tells the compiler to skip its file. */
async function requireChecked(file: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch(() => undefined)
  if (text !== undefined) await writeFile(file, text.replace('// @ts-nocheck', ''))
}

test.each(generators)('a client that %s generates compiles and makes a call of each area', async (name, command) => {
  const answers = await tryClient(name, command)
  expect(answers).toEqual({
    access: true,
    audit: true,
    auth: expect.any(Object),
    environment: ['development', 'staging', 'production'],
    me: owner.email,
    member: 1,
    oidc: 0,
    project: ['api'],
    secret: {
      results: ['renamed', 'deleted'],
      listed: ['C'],
      text: expect.stringMatching(/^C=['"]?1['"]?\n$/),
      object: { C: '1' },
    },
    'secret-share': 1,
    service: name,
    sync: true,
    team: 1,
    tokens: expect.stringMatching(/^cof_/),
    workspace: ['main'],
  })
  expect(Object.keys(Object(answers)).sort()).toEqual(areas)
})
