/**
 * `npm run build`: makes the package of the server in dist/server, without types: one folder of modules, the pages of the
 * dashboard, which are built before, and the files of the API reference.
 */
import { chmodSync, copyFileSync, cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type Plugin, rolldown } from 'rolldown'
import { fixedCommit } from '../commit-plugin.ts'
import { distFolder, licensesName } from '../dashboard/build.ts'
import { swaggerUiFiles } from './src/http/docs/swagger-ui.ts'
import { installation } from './src/installation.ts'

const root = join(import.meta.dirname, '..')
/** Native code cannot be bundled. This package brings it ready for each platform. */
const native = '@node-rs/argon2'

type Manifest = { readonly dependencies: Readonly<Record<string, string>> } & Readonly<Record<string, unknown>>

/** Replaces the folder. */
export async function buildPackage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'swagger-ui'), { recursive: true })
  const bundled = await bundleServer(join(folder, 'lib'), packaged)
  // Names with a dot in front are notes of the build.
  cpSync(distFolder, join(folder, 'dashboard'), { recursive: true, filter: (path) => !basename(path).startsWith('.') })
  // The package of Swagger UI would report each installation to its vendor.
  for (const name of [...Object.keys(swaggerUiFiles), 'LICENSE', 'NOTICE']) {
    copyFileSync(installation.findSwaggerUiFile(name), join(folder, 'swagger-ui', name))
  }
  copyFileSync(join(root, 'server/start-package.js'), join(folder, 'coffer-server.js'))
  chmodSync(join(folder, 'coffer-server.js'), 0o755)
  copyFileSync(join(root, 'compile-cache.js'), join(folder, 'compile-cache.js'))
  copyFileSync(join(root, 'server/README.md'), join(folder, 'README.md'))
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
  writeFileSync(join(folder, 'LICENSES-OF-PARTS.txt'), collectLicenses(bundled))
  const {
    private: _,
    dependencies,
    ...manifest
  }: Manifest = JSON.parse(readFileSync(join(root, 'server/package.json'), 'utf8'))
  const published = {
    ...manifest,
    bin: { 'coffer-server': 'coffer-server.js' },
    engines: { node: '>=24' },
    dependencies: { [native]: dependencies[native] },
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`)
}

/** All code in one folder, with the given `installation.ts`. Returns the paths of the modules. */
export async function bundleServer(folder: string, installation: Plugin): Promise<readonly string[]> {
  const build = await rolldown({
    input: { main: join(root, 'server/src/main.ts') },
    platform: 'node',
    // The client of PostgreSQL looks for the second one only when it is told to.
    external: [native, 'pg-native'],
    plugins: [installation, workers, fixedCommit],
  })
  // Not minified: a trace in the log of an operator names functions.
  const { output } = await build.write({ dir: folder, format: 'esm', chunkFileNames: '[name]-[hash].js' })
  await build.close()
  return output.flatMap((one) => (one.type === 'chunk' ? one.moduleIds : []))
}

const packaged: Plugin = {
  name: 'packaged',
  resolveId: (path) =>
    path.endsWith('/installation.ts') ? join(root, 'server/src/installation-package.ts') : undefined,
}

/** A thread starts with a file of its own. */
const workers: Plugin = {
  name: 'workers',
  transform(code, id) {
    if (!id.startsWith(join(root, 'server/src/'))) return undefined
    return code.replace(/new URL\('(\.\/[\w-]+\.[jt]s)', import\.meta\.url\)/g, (_, path: string) => {
      const reference = this.emitFile({ type: 'chunk', id: join(dirname(id), path) })
      return `new URL(import.meta.ROLLUP_FILE_URL_${reference})`
    })
  },
}

type Part = { readonly name: string; readonly version: string; readonly identifier: string; readonly text: string }

/** The licences of the packages that are in the bundle and in the pages, which ask for a copy. */
function collectLicenses(modules: readonly string[]): string {
  // Its styles are in the pages; the build of these names only packages with code.
  const styles = join(root, 'node_modules/tailwindcss/index.css')
  const inPages: Part[] = JSON.parse(readFileSync(join(distFolder, licensesName), 'utf8'))
  const parts = [...listParts([...modules, styles]), ...inPages]
  const texts = parts.map(({ name, version, identifier, text }) => `${name} ${version} (${identifier})\n\n${text}\n`)
  return [...new Set(texts)].toSorted().join(`\n${'-'.repeat(80)}\n\n`)
}

function listParts(modules: readonly string[]): Part[] {
  const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? [])
  return [...new Set(folders)].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const files = globSync('{LICEN[CS]E,licen[cs]e}*', { cwd: folder })
    const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim())
    return { name, version, identifier: license, text: texts.length > 0 ? texts.join('\n\n') : sectionOf(folder) }
  })
}

/** Two packages have their licence at the end of the README alone. */
function sectionOf(folder: string): string {
  const [, section = ''] = readFileSync(join(folder, 'README.md'), 'utf8').split(/^#+ licen[cs]e$/im)
  return section.trim()
}

if (import.meta.main) await buildPackage(join(root, 'dist/server'))
