/** `npm run build`: makes the package of the command line in dist/cli, without types. */
import { hash } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type RolldownBuild, rolldown } from 'rolldown'
import { fixedCommit } from '../commit-plugin.ts'

const root = join(import.meta.dirname, '..')

/** Replaces the folder. */
export async function buildPackage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const build = await rolldown({
    input: { main: join(root, 'cli/src/main.ts') },
    platform: 'node',
    plugins: [fixedCommit],
    external: ['@napi-rs/keyring'],
    // Chunks may take the modules of the first file from there.
    preserveEntrySignatures: 'allow-extension',
  })
  const loadedFirst = await listFirstModules(build)
  await build.write({
    dir: folder,
    // Node starts CommonJS with 2 ms less of processor time than ECMAScript modules.
    format: 'cjs',
    // The start of the package has no loader for import().
    dynamicImportInCjs: false,
    minify: true,
    chunkFileNames: 'command/[name]-[hash].js',
    // Each kilobyte and each file costs time: one file for help and `coffer run`, one for the rest that commands share,
    // and one for each command.
    codeSplitting: {
      groups: [
        { name: 'first', test: (id) => loadedFirst.has(id), priority: 1 },
        { name: 'shared', test: /\/(cli|sdk)\/src\//, minShareCount: 2 },
      ],
    },
  })
  await build.close()
  const program = wrap(readFileSync(join(folder, 'main.js'), 'utf8'))
  writeFileSync(join(folder, 'main.js'), program)
  const content = hash('sha256', program).slice(0, 32)
  const start = readFileSync(join(root, 'cli/start-package.cjs'), 'utf8')
    .replace(/^\/\/.*\n/gm, '')
    .replace('CONTENT', content)
  writeFileSync(join(folder, 'coffer.js'), start)
  chmodSync(join(folder, 'coffer.js'), 0o755)
  const {
    private: _,
    dependencies: _bundled,
    ...manifest
  } = JSON.parse(readFileSync(join(root, 'cli/package.json'), 'utf8'))
  const published = { ...manifest, type: 'commonjs', bin: { coffer: 'coffer.js' }, engines: { node: '>=24' } }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`)
  // The other guides are not in the package.
  const guide = readFileSync(join(root, 'docs/cli.md'), 'utf8').replace(/\[([^\]]+)\]\([\w-]+\.md[^)]*\)/g, '$1')
  writeFileSync(join(folder, 'README.md'), guide)
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

/**
 * As a function, and in ASCII: otherwise the start would copy the text, and V8 would keep two bytes of each letter, which
 * makes its first garbage collection come earlier. Modules of Node come without `require`, which takes longer for each.
 */
function wrap(code: string): string {
  const escaped = code.replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const direct = escaped.replace(/\brequire\(([`"'])(node:\w+)\1\)/g, "process.getBuiltinModule('$2')")
  return `(function (exports, require, module) {${direct}\n})`
}

/** The modules that every start loads: main.ts and its imports, without what nothing of them uses. */
async function listFirstModules(build: RolldownBuild): Promise<ReadonlySet<string>> {
  const { output } = await build.generate({ format: 'esm' })
  const chunks = new Map(output.flatMap((one) => (one.type === 'chunk' ? [[one.fileName, one] as const] : [])))
  const found = new Set<string>()
  const files = new Set(['main.js'])
  for (const file of files) {
    const { modules = {}, imports = [] } = chunks.get(file) ?? {}
    for (const id of Object.keys(modules)) found.add(id)
    for (const other of imports) files.add(other)
  }
  return found
}

if (import.meta.main) await buildPackage(join(root, 'dist/cli'))
