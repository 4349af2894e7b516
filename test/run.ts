/**
 * `npm test` and `npm run test:deep`: format, lint, types and the tests of a tier (tier.ts); words after `--` choose files,
 * and then only those tests run. Closes with one line: N passed, N failed.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { browserProgram } from './browser-program.ts'
import { startInstalling } from './debian-package.ts'

const [tier = 'fast', ...filters] = process.argv.slice(2)
const root = join(import.meta.dirname, '..')
const bin = join(root, 'node_modules', '.bin')
const environment = { ...process.env, PATH: `${bin}:${process.env.PATH}`, COFFER_TEST_TIER: tier }

function run(command: string, args: string[]): boolean {
  return spawnSync(command, args, { cwd: root, env: environment, stdio: 'inherit' }).status === 0
}

/** The vendors' own clients and descriptions are about 1 GB: only the deep tier needs them. */
function installJudges(): void {
  console.log('Installing the clients that judge the fakes of sync targets …')
  const npm = spawnSync('npm', ['install', '--no-progress', '--ignore-scripts'], {
    cwd: join(root, 'test', 'vendor'),
    env: environment,
    stdio: 'ignore',
  })
  if (npm.status === 0) return
  console.error('They could not be installed: run "npm install" in test/vendor to see why.')
  process.exit(1)
}

type Report = {
  readonly success: boolean
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[]
}

let passed = 0
let failed = 0
function count(ok: boolean): void {
  if (ok) passed++
  else failed++
}

if (tier === 'deep') installJudges()
if (filters.length === 0) {
  // A download of half a minute, which the tests of pages would wait for.
  startInstalling(browserProgram)
  console.log('Format and lint …')
  count(run('biome', ['check', '--error-on-warnings', '.']))
  console.log('Types …')
  count(run('tsc', ['--noEmit']))
  count(run('tsc', ['--noEmit', '--project', 'dashboard']))
  if (tier === 'deep') count(run('tsc', ['--noEmit', '--project', 'test/vendor']))
}
console.log('Tests …')
const folder = mkdtempSync(join(tmpdir(), 'coffer-report-'))
const report = join(folder, 'report.json')
const isClean = run('vitest', [
  'run',
  ...filters,
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${report}`,
])
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
