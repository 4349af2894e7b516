/** Rules for the whole code base: import directions, no cycles, and one owner for each sensitive operation. */
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { edgesBetweenFolders, edgesOf, findCycles, importsOf, listFiles } from './import-graph.ts'

const root = resolve(import.meta.dirname, '..')
const source = join(root, 'server/src')

const production = listFiles(source).filter((file) => !/\.test\.ts$|-test-/.test(file))
const imports = production.flatMap(importsOf)

/** Each layer and the layers it may import. Files beside the layers, and folders of such files, are leaves. */
const allowedImports: Record<string, readonly string[]> = {
  main: ['command'],
  command: ['serve', 'operator', 'open-store', 'leaf'],
  serve: ['app', 'sealed', 'open-store', 'leaf'],
  sealed: ['http', 'open-store', 'leaf'],
  operator: ['app', 'open-store', 'domain', 'store', 'leaf'],
  app: ['http', 'jobs', 'open-store', 'domain', 'store', 'leaf'],
  'open-store': ['store', 'crypto', 'leaf'],
  http: ['domain', 'crypto', 'leaf'],
  jobs: ['domain', 'leaf'],
  domain: ['store', 'crypto', 'providers', 'leaf'],
  providers: ['leaf'],
  store: ['crypto', 'leaf'],
  crypto: ['leaf'],
  leaf: [],
}

function layerOf(file: string): string {
  // Beside the packages, because the command line says its commit too.
  if (file === join(root, 'commit.ts')) return 'leaf'
  const [first = '', ...rest] = relative(source, file).split('/')
  if (rest.length > 0) return ['master-key', 'slot', 'tls'].includes(first) ? 'leaf' : first
  const name = first.replace(/\.ts$/, '')
  return ['main', 'command', 'serve', 'sealed', 'app', 'open-store'].includes(name) ? name : 'leaf'
}

test('a layer imports only the layers below it', () => {
  const wrong = imports
    .filter(({ to }) => to.startsWith('.'))
    .map(({ from, to }) => ({ from, target: resolve(dirname(from), to) }))
    .filter(({ from, target }) => layerOf(from) !== layerOf(target))
    .filter(({ from, target }) => !allowedImports[layerOf(from)]?.includes(layerOf(target)))
    .map(({ from, target }) => `${relative(source, from)} uses ${relative(source, target)}`)
  expect(imports.length).toBeGreaterThan(100)
  expect(wrong).toEqual([])
})

const folders = ['server', 'contract', 'sdk', 'cli', 'dashboard', 'test', 'bench', 'torture', 'docs']
const everyEdge = folders.flatMap((folder) => listFiles(join(root, folder))).flatMap((file) => edgesOf(importsOf(file)))

test('no import cycle between files, type imports included', () => {
  const cycles = findCycles(everyEdge)
  expect(everyEdge.length).toBeGreaterThan(2_000)
  expect(cycles.map((cycle) => cycle.map((file) => relative(root, file)).join(' → '))).toEqual([])
})

test('no import cycle between the folders of a layer, direct or indirect', () => {
  const rooms = new Set([source, ...production.map((file) => dirname(file))])
  const edges = imports.flatMap((one) => edgesOf([one]))
  const cycles = [...rooms].flatMap((folder) =>
    findCycles(edgesBetweenFolders(edges, folder)).map((cycle) => `${relative(source, folder)}: ${cycle.join(' → ')}`),
  )
  expect(cycles).toEqual([])
})

test('the check finds cycles of type imports, between files and between folders', async ({ onTestFinished }) => {
  const fixture = await mkdtemp(join(tmpdir(), 'coffer-circle-'))
  onTestFinished(() => rm(fixture, { recursive: true }))
  const files = {
    'one/a.ts': "import type { B } from '../two/b.ts'\nexport type A = B[]\n",
    'two/b.ts': "import {\n  type C,\n} from '../three/c.ts'\nexport type B = C[]\n",
    'three/c.ts': "export type { A as C } from '../one/a.ts'\n",
    'three/d.ts': "import '../one/e.ts'\nexport const d = 1\n",
    'one/e.ts': "export const e = () => import('../two/f.ts')\n",
    'two/f.ts': 'export const f = 1\n',
  }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(fixture, name)), { recursive: true })
    await writeFile(join(fixture, name), text)
  }
  const edges = listFiles(fixture).flatMap((file) => edgesOf(importsOf(file)))
  const cycle = ['one/a.ts', 'two/b.ts', 'three/c.ts'].map((name) => join(fixture, name))
  expect(edges.length).toBe(5)
  expect(findCycles(edges).map((found) => new Set(found))).toEqual([new Set(cycle)])
  const betweenFolders = findCycles(edgesBetweenFolders(edges, fixture)).map((found) => new Set(found))
  expect(betweenFolders).toContainEqual(new Set(['one', 'two', 'three']))
})

/**
 * State that outlives a request is a service, created in app.ts and passed in `ctx`. What describes an object of ours is a
 * field of that object, not an entry of a WeakMap beside it.
 */
test('no module holds mutable state', () => {
  const declarations: RegExp[] = [
    /^(?:export )?(?:let|var) (\w+)/gm,
    /^(?:export )?const (\w+)(?:: (?!Readonly)[^=\n]+)? = (?:new (?:Map|Set|Array|\w+Array)\b|\[\]|\{\})/gm,
    /^(?:export )?const (\w+).* = new Weak(?:Map|Set|Ref)\b/gm,
    /^(?:export )?const (\w+)[^=\n]* = (?:await )?(?:create|start|open)[A-Z]\w*\(/gm,
  ]
  /** Id order and pooled random bytes are per process and reveal nothing about other requests. */
  const known = [
    'crypto/id.ts: lastMs',
    'crypto/id.ts: beginning',
    'crypto/id.ts: counter',
    'crypto/random-pool.ts: used',
    'crypto/random-pool.ts: pool',
    // By the strings of an SQL template, which JavaScript makes once for its place in the code, and which has no fields.
    'store/engine/postgres-insert.ts: joinedInserts',
    'store/engine/postgres.ts: compiledQueries',
  ]
  const held = production.flatMap((file) => {
    const text = readFileSync(file, 'utf8')
    const names = declarations.flatMap((pattern) => [...text.matchAll(pattern)].map(([, name]) => name))
    return names.map((name) => `${relative(source, file)}: ${name}`)
  })
  expect(held.toSorted()).toEqual(known.toSorted())
})

test('no type of ours is cast to an unrelated one', () => {
  const casting = production.filter((file) => readFileSync(file, 'utf8').includes('as unknown as'))
  expect(casting.map((file) => relative(source, file))).toEqual(['http/request/validate.ts'])
})

test('the contract imports nothing but its schema library', () => {
  const outside = listFiles(join(root, 'contract/src'))
    .flatMap(importsOf)
    .filter(({ to }) => !to.startsWith('./') && to !== 'typebox')
  expect(outside.map(({ to }) => to)).toEqual([])
})

const clientFiles = listFiles(join(root, 'sdk')).filter((file) => !file.endsWith('.test.ts'))
const clientLibrary = clientFiles.filter((file) => file.startsWith(join(root, 'sdk/src')))

test('the client library imports only its own files, and only platform.ts uses Node globals', () => {
  expect(clientLibrary.length).toBeGreaterThan(10)
  expect(clientLibrary.flatMap(importsOf).filter(({ to }) => !to.startsWith('./'))).toEqual([])
  const users = clientLibrary.filter((file) =>
    /\b(Buffer|process|__dirname)\b|\brequire\(['"]/.test(readFileSync(file, 'utf8')),
  )
  expect(users.map((file) => relative(root, file))).toEqual(['sdk/src/platform.ts'])
})

test('the dashboard sees the client library alone, and its plain pages have no React', () => {
  const pages = listFiles(join(root, 'dashboard/src')).filter((file) => !file.endsWith('.test.ts'))
  const packages = (files: readonly string[]) =>
    new Set(files.flatMap(importsOf).flatMap(({ to }) => (to.startsWith('.') ? [] : [to])))
  const allowed = /^(@coffer\/sdk|react|react-dom|@tanstack|@base-ui|uqr)(\/|$)/
  expect([...packages(pages)].filter((name) => !allowed.test(name))).toEqual([])
  const plain = pages.filter((file) => file.includes('/src/plain/'))
  expect([...packages(plain)].filter((name) => !name.startsWith('@coffer/sdk'))).toEqual([])
  const outside = plain.flatMap(importsOf).filter(({ to }) => /^\.\.\/(?!look\/)/.test(to))
  expect(outside).toEqual([])
})

test('the generator, the build and the type checks of the client library use nothing of the service', () => {
  const outside = clientFiles
    .filter((file) => !clientLibrary.includes(file))
    .flatMap(importsOf)
    .filter(({ to }) => !/^(\.\/|\.\.\/src\/|node:|rolldown$|@coffer\/contract\/)/.test(to))
  expect(outside).toEqual([])
})

const commandLine = listFiles(join(root, 'cli/src')).filter((file) => !file.endsWith('.test.ts'))

test('the command line uses the client library alone, and never loads node:http at its start', () => {
  const outside = commandLine.flatMap(importsOf).filter(({ to }) => !/^(\.|node:|@coffer\/sdk(\/|$))/.test(to))
  expect([...new Set(outside.map(({ from, to }) => `${relative(root, from)}: ${to}`))]).toEqual([
    'cli/src/prompt.ts: @clack/prompts',
    'cli/src/session/keyring.ts: @napi-rs/keyring',
  ])
  const heavy = commandLine.flatMap(importsOf).filter(({ to }) => /^node:https?2?$/.test(to))
  expect(heavy).toEqual([])
})

test('only the engines import a database driver, outbound.ts and mail.ts open connections, and one file signs for AWS', () => {
  const owners: Record<string, RegExp> = {
    pg: /store\/engine\/postgres(-error|-insert|-table-reader)?\.ts$/,
    'node:sqlite':
      /store\/engine\/(sqlite(-connection|-wal|-checkpoint(er)?|-snapshot|-table-reader)?|scratch-folder)\.ts$/,
    'node:https': /outbound\.ts$/,
    'node:tls': /outbound\.ts$/,
    'node:dns/promises': /outbound\.ts$/,
    aws4fetch: /src\/aws-signature\.ts$/,
    'nodemailer/lib/smtp-connection': /src\/mail\.ts$/,
    'nodemailer/lib/mail-composer': /src\/mail\.ts$/,
  }
  const violations = imports.filter(({ from, to }) => owners[to] && !owners[to].test(from))
  expect(violations.map(({ from, to }) => `${relative(source, from)}: ${to}`)).toEqual([])
  const fetching = production.filter((file) => /\bfetch\(/.test(readFileSync(file, 'utf8')))
  expect(fetching.map((file) => relative(source, file))).toEqual([])
})

test('undocumented fields of Node are used only in the listed files', () => {
  const used = production.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\w\??\.(_\w+|onIncoming\b)|\b(httpAllowHalfOpen):/g)].map(
      ([, field, option]) => `${relative(source, file)}: ${field ?? option}`,
    ),
  )
  const reasoned = ['http/limits/pipelining-limit.ts: onIncoming', 'http/server.ts: httpAllowHalfOpen']
  expect(used.toSorted()).toEqual(reasoned)
})

test('production code imports nothing from test, bench or torture', () => {
  const outside = ['test', 'bench', 'torture'].map((folder) => `${join(root, folder)}/`)
  const violations = [...imports, ...listFiles(join(root, 'contract/src')).flatMap(importsOf)]
    .filter(({ to }) => to.startsWith('.'))
    .filter(({ from, to }) => outside.some((folder) => resolve(dirname(from), to).startsWith(folder)))
  expect(violations).toEqual([])
})

test('the fuzzer imports no code of the service', () => {
  const seen = new Set<string>()
  function visit(file: string): void {
    if (seen.has(file)) return
    seen.add(file)
    for (const { to } of importsOf(file)) if (to.startsWith('.')) visit(resolve(dirname(file), to))
    const own = importsOf(file).filter(({ to }) => to.startsWith('@coffer/') || /\/(server|contract|sdk)\//.test(to))
    expect(own, relative(root, file)).toEqual([])
  }
  visit(join(root, 'torture/client/fuzz.ts'))
  expect(seen.size).toBeGreaterThan(5)
})

test('every export is used in another file', () => {
  const files = ['server', 'cli', 'dashboard', 'test', 'bench', 'torture', 'docs'].flatMap((folder) =>
    listFiles(join(root, folder)),
  )
  const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]))
  const namedIn = new Map<string, Set<string>>()
  const clientTests = ['sdk']
    .flatMap((folder) => listFiles(join(root, folder)))
    .map((file): [string, string] => [file, readFileSync(file, 'utf8')])
  for (const [file, text] of [...texts, ...clientTests]) {
    for (const [name] of text.matchAll(/[\w$]+/g)) namedIn.set(name, (namedIn.get(name) ?? new Set()).add(file))
  }
  const unused = [...texts].flatMap(([file, text]) =>
    [...text.matchAll(/^export (?:async )?(?:type|const|let|function\*?|class) ([\w$]+)/gm)]
      .filter(([, name = '']) => namedIn.get(name)?.size === 1)
      .map(([, name]) => `${relative(root, file)}: ${name}`),
  )
  expect(texts.size).toBeGreaterThan(400)
  expect(unused).toEqual([])
})

test('comments name only files that exist', () => {
  const files = folders.flatMap((folder) => listFiles(join(root, folder)))
  const named = files.flatMap((file) => {
    const comments = readFileSync(file, 'utf8').match(/^\s*(?:\/\/|\/?\*).*$/gm) ?? []
    const names = comments.join('\n').match(/[\w./-]*[\w-]\.ts\b/g) ?? []
    return names.map((name) => ({ file: relative(root, file), name }))
  })
  const isThere = (name: string) => files.some((file) => file.endsWith(`/${name}`))
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter(({ name }) => !isThere(name))).toEqual([])
})

test('no file has a generic name such as utils or helpers', () => {
  const forbidden = /^(utils?|helpers?|common|types|index|misc|shared|constants)\.ts$/
  const rooms = ['contract/src', 'bench', 'torture', 'test'].flatMap((folder) => listFiles(join(root, folder)))
  const named = [...production, ...clientFiles, ...rooms].filter((file) => forbidden.test(file.split('/').at(-1) ?? ''))
  expect(named).toEqual([])
})

test('no file has more than 350 lines', () => {
  const written = clientFiles.filter((file) => !readFileSync(file, 'utf8').startsWith('/** Generated '))
  const large = [...production, ...written, ...listFiles(join(root, 'torture'))]
    .map((file) => ({ file: relative(source, file), lines: readFileSync(file, 'utf8').split('\n').length }))
    .filter(({ lines }) => lines > 350)
  expect(large).toEqual([])
})

test('encryption, associated data and audit rows each have exactly one owning file', () => {
  const owners: [what: RegExp, owner: RegExp][] = [
    [/createCipheriv|createDecipheriv/, /crypto\/envelope\.ts$/],
    [/setAAD/, /crypto\/envelope\.ts$/],
    [/insert into audit_entry/, /store\/audit\/audit\.ts$/],
    [/audit\.insert\(/, /domain\/audit\/append\.ts$/],
    [/insert into audit_batch/, /store\/audit\/audit\.ts$/],
    [/audit\.insertBatch\(/, /domain\/audit\/append\.ts$/],
    [/insert into change/, /store\/change\.ts$/],
  ]
  for (const [what, owner] of owners) {
    const users = production.filter((file) => what.test(readFileSync(file, 'utf8')))
    expect(
      users.filter((file) => !owner.test(file)),
      String(what),
    ).toEqual([])
    expect(users.length, String(what)).toBe(1)
  }
})
