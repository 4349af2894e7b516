/**
 * Builds the dashboard into dashboard/dist, with a brotli and a gzip copy of every file that gains from it. `isFresh`
 * compares a digest of the sources, so that `npm start` (`--if-changed`) builds only after a change.
 */
import { createHash } from 'node:crypto'
import { chmodSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const folder = import.meta.dirname
export const distFolder = join(folder, 'dist')
const digestName = '.sources'
/** The packages in the pages, with their licences. Names with a dot in front are not served. */
export const licensesName = '.licenses.json'

/** Everything that the build reads, beside the packages, which the lockfile stands for. */
const sources = [
  'dashboard/{src,public}/**/*',
  'dashboard/*.{ts,html,json}',
  'sdk/src/*.ts',
  'package-lock.json',
  'tsconfig.json',
]

function digestSources(): string {
  const root = join(folder, '..')
  const hash = createHash('sha256')
  const files = globSync(sources, { cwd: root }).filter((name) => !/\.test\.tsx?$/.test(name))
  for (const name of files.toSorted()) {
    const path = join(root, name)
    if (statSync(path).isFile()) hash.update(`${name}\n`).update(readFileSync(path))
  }
  return hash.digest('hex')
}

function readDigest(): string | undefined {
  try {
    return readFileSync(join(distFolder, digestName), 'utf8')
  } catch {
    return undefined
  }
}

export const isFresh = () => readDigest() === digestSources()

const smallestCompressedBytes = 512

/** Builds beside the old build and replaces it at the end, so that a build that fails or is interrupted changes nothing. */
export async function buildDashboard(): Promise<void> {
  // Loaded here: a start with a fresh build needs nothing of it.
  const { build } = await import('vite')
  const digest = digestSources()
  const newFolder = mkdtempSync(join(folder, '.dist-'))
  const environment = process.env.NODE_ENV
  // A test runner sets `test`: the pages would hold the development build of React, at twice the size.
  process.env.NODE_ENV = 'production'
  try {
    const options = { outDir: newFolder, emptyOutDir: true, license: { fileName: licensesName } }
    await build({ configFile: join(folder, 'vite.config.ts'), logLevel: 'error', build: options })
    for (const name of globSync('**/*.{js,css,html,svg}', { cwd: newFolder })) compress(join(newFolder, name))
    writeFileSync(join(newFolder, digestName), digest)
    chmodSync(newFolder, 0o755)
    replaceBuild(newFolder)
  } finally {
    if (environment === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = environment
    rmSync(newFolder, { recursive: true, force: true })
  }
}

/** Several builds may end at once: each sets aside what it finds, until it is the first to take the place. */
function replaceBuild(newFolder: string): void {
  const oldFolder = `${newFolder}-old`
  for (;;) {
    const trouble = tryRename(distFolder, oldFolder, ['ENOENT', 'EXDEV'])
    if (trouble === undefined) rmSync(oldFolder, { recursive: true, force: true })
    // In a container, a folder of the image cannot be renamed.
    if (trouble === 'EXDEV') rmSync(distFolder, { recursive: true, force: true })
    if (tryRename(newFolder, distFolder, ['ENOTEMPTY', 'EEXIST']) === undefined) return
  }
}

/** Returns which of the expected errors has occurred. */
function tryRename(from: string, to: string, expected: readonly string[]): string | undefined {
  try {
    renameSync(from, to)
    return undefined
  } catch (error) {
    const code = expected.find((one) => one === (error as NodeJS.ErrnoException).code)
    if (code === undefined) throw error
    return code
  }
}

function compress(path: string): void {
  const bytes = readFileSync(path)
  if (bytes.length < smallestCompressedBytes) return
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }))
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
}

/** Before a start: builds if something has changed. The service starts in any case, with the older pages or with none. */
async function buildIfChanged(): Promise<void> {
  if (isFresh()) return
  const startedAt = performance.now()
  process.stdout.write('Building the dashboard …')
  // On a terminal, vite would clear this line with every file; a terminal of CI it leaves alone.
  if (process.stdout.isTTY) process.env.CI = 'true'
  try {
    await buildDashboard()
    process.stdout.write(` ${((performance.now() - startedAt) / 1_000).toFixed(1)} s\n`)
  } catch (error) {
    const pages = readDigest() === undefined ? 'without it' : 'with its last build'
    process.stdout.write(` failed. Coffer starts ${pages}. ${explain(error)}\n`)
  }
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const isMissing = 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
  return isMissing ? 'A package for building is not installed: npm install adds it.' : error.message
}

if (process.argv[1] === import.meta.filename) {
  await (process.argv.includes('--if-changed') ? buildIfChanged() : buildDashboard())
}
