/** `npm run build`: makes the package of the command line in dist/cli, without types. */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

/** Replaces the folder. */
export async function buildPackage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const build = await rolldown({
    input: { main: join(root, 'cli/src/main.ts') },
    platform: 'node',
    external: ['@napi-rs/keyring'],
    plugins: [{ name: 'builtins', renderChunk: (code) => withoutBuiltinImports(code) }],
  })
  await build.write({
    dir: folder,
    format: 'esm',
    minify: true,
    chunkFileNames: 'command/[name]-[hash].js',
    // Each file costs about as much as the code in it: one for what commands share, one for each command.
    codeSplitting: { groups: [{ name: 'shared', test: /\/(cli|sdk)\/src\//, minShareCount: 2 }] },
  })
  await build.close()
  // Starts as the program of the repository does, without a compile cache.
  const start = readFileSync(join(root, 'cli/start.js'), 'utf8')
    .replace(/^(\/\/|import ).*\n|^ +module\.enable.*\n/gm, '')
    .replace('./src/main.ts', './main.js')
  writeFileSync(join(folder, 'coffer.js'), start)
  chmodSync(join(folder, 'coffer.js'), 0o755)
  const {
    private: _,
    dependencies: _bundled,
    ...manifest
  } = JSON.parse(readFileSync(join(root, 'cli/package.json'), 'utf8'))
  const published = { ...manifest, bin: { coffer: 'coffer.js' }, engines: { node: '>=24' } }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`)
  // The other guides are not in the package.
  const guide = readFileSync(join(root, 'docs/cli.md'), 'utf8').replace(/\[([^\]]+)\]\([\w-]+\.md[^)]*\)/g, '$1')
  writeFileSync(join(folder, 'README.md'), guide)
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

/** An import of node:fs reads all of its exports, some of which load other modules: a sixth of the start of a command. */
function withoutBuiltinImports(code: string): string {
  const imports = /import\s*(\{[^}]*\}|\*\s*as\s+[\w$]+)\s*from\s*["'`](node:[\w/]+)["'`];?/g
  return code.replace(imports, (_, names: string, id: string) => {
    const bound = names.replace(/^\*\s*as\s+/, '').replaceAll(/\s+as\s+/g, ':')
    return `const ${bound}=process.getBuiltinModule("${id}");`
  })
}

if (import.meta.main) await buildPackage(join(root, 'dist/cli'))
