/**
 * `npm test` and `npm run test:deep`: format, lint, types and the tests of a tier (tier.ts); words after `--` choose files,
 * and then only those tests run. The deep tier leaves out what `npm test` has run in the same way, unless it is asked for
 * `--all` or for files. Closes with one line: N passed, N failed.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { browserProgram } from './browser-program.ts'
import { startInstalling } from './debian-package.ts'

const [tier = 'fast', ...words] = process.argv.slice(2)
const filters = words.filter((word) => word !== '--all')
const isWhole = filters.length === 0
/** The tests of the deep tier that `npm test` does not run. */
const isRest = tier === 'deep' && isWhole && !words.includes('--all')
const root = join(import.meta.dirname, '..')
const bin = join(root, 'node_modules', '.bin')
const environment = {
  ...process.env,
  PATH: `${bin}:${process.env.PATH}`,
  COFFER_TEST_TIER: tier,
  COFFER_TEST_AFTER_FAST: isRest ? 'yes' : 'no',
  // Every project starts processes of its own, which load the same packages.
  NODE_COMPILE_CACHE: join(root, 'node_modules', '.coffer-test-compiled'),
}

type Ended = { readonly ok: boolean; readonly output: string }

function start(command: string, args: string[], { cwd = root, isShown = false } = {}): Promise<Ended> {
  const stdio = isShown ? 'inherit' : 'pipe'
  const child = spawn(command, args, { cwd, env: environment, stdio: ['ignore', stdio, stdio] })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => output.push(chunk))
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve({ ok: false, output: `${message}\n` }))
    child.once('close', (code) => resolve({ ok: code === 0, output: Buffer.concat(output).toString() }))
  })
}

/** The vendors' own clients and descriptions are about 1 GB: only the deep tier needs them. */
async function installJudges(): Promise<void> {
  console.log('Installing the clients that judge the fakes of sync targets …')
  const { ok } = await start('npm', ['install', '--no-progress', '--ignore-scripts'], {
    cwd: join(root, 'test', 'vendor'),
  })
  if (ok) return
  console.error('They could not be installed: run "npm install" in test/vendor to see why.')
  process.exit(1)
}

/** One after the other, because each of them uses all cores. */
async function checkSources(): Promise<readonly (readonly [name: string, Ended])[]> {
  const format = await start('biome', ['check', '--error-on-warnings', '.'])
  const types = await start('tsc', ['--noEmit'])
  const pages = await start('tsc', ['--noEmit', '--project', 'dashboard'])
  const judges = tier === 'deep' ? [['Types of the judges', await checkJudges()] as const] : []
  return [['Format and lint', format], ['Types', types], ['Types of the dashboard', pages], ...judges]
}

async function checkJudges(): Promise<Ended> {
  await installing
  return start('tsc', ['--noEmit', '--project', 'test/vendor'])
}

type Report = {
  readonly success: boolean
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[]
}

const installing = tier === 'deep' ? installJudges() : Promise.resolve()
if (isRest)
  console.log('What "npm test" does not run, or runs differently; "npm run test:deep -- --all" runs everything.')
// A download of half a minute, which the tests of pages would wait for.
if (isWhole) startInstalling(browserProgram)
const checking = isWhole ? checkSources() : Promise.resolve([])
await installing
console.log(isWhole ? 'Format, lint, types and tests …' : 'Tests …')
const folder = mkdtempSync(join(tmpdir(), 'coffer-report-'))
const report = join(folder, 'report.json')
const { ok: isClean } = await start(
  'vitest',
  ['run', ...filters, '--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
  { isShown: true },
)
let passed = 0
let failed = 0
for (const [name, { ok, output }] of await checking) {
  if (ok) passed++
  else failed++
  console.log(`${name}: ${ok ? 'passed' : `failed\n${output}`}`)
}
try {
  const result: Report = JSON.parse(readFileSync(report, 'utf8'))
  // A file that could not be loaded has no tests to count; a skipped test proves nothing.
  const unloaded = result.testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0)
  const before = failed
  passed += result.numPassedTests
  failed += result.numFailedTests + result.numPendingTests + unloaded.length
  // An error outside of every test, such as a promise that nobody awaits, is in no test's result.
  if (!(isClean && result.success) && failed === before) failed++
} catch {
  failed++
}
rmSync(folder, { recursive: true, force: true })
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
