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
  })
  // A file for each command: in a single one, every command would load the modules of Node that any of them imports.
  await build.write({ dir: folder, format: 'esm', minify: true, chunkFileNames: 'command/[name]-[hash].js' })
  await build.close()
  writeFileSync(join(folder, 'coffer.js'), "#!/usr/bin/env node\nimport { main } from './main.js'\n\nawait main()\n")
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

if (import.meta.main) await buildPackage(join(root, 'dist/cli'))
