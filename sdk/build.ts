/**
 * `npm run build`: makes the package in dist/sdk as it would be published, because Node strips types only outside of
 * node_modules. `tsc` writes the declarations, rolldown the modules.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

type Manifest = { readonly exports: Readonly<Record<string, string>> } & Readonly<Record<string, unknown>>

/** Replaces the folder. */
export async function buildPackage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const {
    private: _,
    exports,
    ...manifest
  }: Manifest = JSON.parse(readFileSync(join(root, 'sdk/package.json'), 'utf8'))
  const entries = Object.entries(exports).map(([path, file]) => ({ path, name: file.replace(/^.*\/|\.ts$/g, '') }))

  const input = Object.fromEntries(entries.map(({ name }) => [name, join(root, `sdk/src/${name}.ts`)]))
  const build = await rolldown({ input })
  await build.write({ dir: folder, format: 'esm' })
  await build.close()

  const project = join(root, 'sdk/tsconfig.build.json')
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['--project', project, '--outDir', folder], { stdio: 'inherit' })
  for (const name of globSync('*.d.ts', { cwd: folder })) {
    const file = join(folder, name)
    writeFileSync(file, readFileSync(file, 'utf8').replace(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'"))
  }

  const published = entries.map(({ path, name }) => [path, { types: `./${name}.d.ts`, default: `./${name}.js` }])
  const text = JSON.stringify({ ...manifest, exports: Object.fromEntries(published) }, undefined, 2)
  writeFileSync(join(folder, 'package.json'), `${text}\n`)
  // The other guides are not in the package.
  const guide = readFileSync(join(root, 'docs/sdk.md'), 'utf8').replace(/\[([^\]]+)\]\([\w-]+\.md[^)]*\)/g, '$1')
  writeFileSync(join(folder, 'README.md'), guide)
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

if (import.meta.main) await buildPackage(join(root, 'dist/sdk'))
