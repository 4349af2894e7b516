/** The docs match the settings, the providers and the files that they name. */
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { CommandEntry } from '../cli/src/command.ts'
import { commandTable } from '../cli/src/commands/table.ts'
import { exitCodes } from '../cli/src/error.ts'
import { globalFlags } from '../cli/src/flag.ts'
import { keyHelp, letterHelp } from '../dashboard/src/pages/grid/keys.ts'
import { cliPage } from '../docs/cli-page.ts'
import { pagesFolder, providerPages } from '../docs/provider-pages.ts'
import manifest from '../package.json' with { type: 'json' }
import { mappingFields } from '../server/src/domain/sync/mapping.ts'
import { providers } from '../server/src/providers/registry.ts'
import { settings } from '../server/src/setting.ts'

const root = join(import.meta.dirname, '..')

test('docs/operation.md lists every setting with its default', () => {
  const rows = settings.map(({ name, default: value, meaning }) => `| \`${name}\` | ${value} | ${meaning} |`)
  const table = ['| Name | Default | Meaning |', '|---|---|---|', ...rows].join('\n')
  const page = readFileSync(join(root, 'docs/operation.md'), 'utf8')
  expect(/<!-- settings -->\n([\s\S]*?)\n<!-- \/settings -->/.exec(page)?.[1]).toBe(table)
})

test('the packages and images that the guides and deploy/ name are of this version', () => {
  const files = globSync(['docs/**/*.md', 'deploy/**/*.{yaml,yml}'], { cwd: root })
  const named = files.flatMap((file) => [
    ...readFileSync(join(root, file), 'utf8').matchAll(/\bcoffer(?:-[a-z]+-|:)(\d+\.\d+\.\d+)\b/g),
  ])
  expect(named.length).toBeGreaterThan(10)
  expect([...new Set(named.map(([, version]) => version))]).toEqual([manifest.version])
})

test('docs/dashboard.md lists every key as the dashboard does', () => {
  const rows = [...keyHelp, ...letterHelp].map(
    ({ keys, text }) => `| ${keys.map((key) => `<kbd>${key}</kbd>`).join(' ')} | ${text} |`,
  )
  const page = readFileSync(join(root, 'docs/dashboard.md'), 'utf8')
  const table = ['| Key | Effect |', '|---|---|', ...rows].join('\n')
  expect(/<!-- keys -->\n([\s\S]*?)\n<!-- \/keys -->/.exec(page)?.[1]).toBe(table)
})

test('docs/provider has exactly one page per provider, as "npm run docs" writes it', () => {
  const pages = providerPages()
  expect([...pages.keys()].sort()).toEqual(['README.md', ...providers.map(({ slug }) => `${slug}.md`)].sort())
  expect(readdirSync(pagesFolder).sort()).toEqual([...pages.keys()].sort())
  for (const [name, text] of pages) {
    expect(readFileSync(join(pagesFolder, name), 'utf8'), `run "npm run docs": ${name}`).toBe(text)
  }
})

test('docs/cli.md is as "npm run docs" writes it, and names every command, flag, variable and exit code', async () => {
  const { file, text } = await cliPage()
  expect(readFileSync(file, 'utf8'), 'run "npm run docs"').toBe(text)
  for (const name of Object.keys(globalFlags)) expect(text).toContain(`--${name}`)
  const visit = async ({ name, commands, load, isHidden }: CommandEntry, parent = ''): Promise<void> => {
    if (isHidden) return
    for (const inner of commands ?? []) await visit(inner, `${name} `)
    if (!load) return
    const [, section = ''] = text.split(`\n### ${parent}${name}\n`)
    for (const flag of Object.keys((await load()).flags)) expect(section, `${parent}${name}`).toContain(`--${flag}`)
  }
  for (const entry of commandTable) await visit(entry)
  for (const code of Object.values(exitCodes))
    expect(text).toMatch(new RegExp(`^\\| ${code} \\||\\b${code} (means )?that`, 'm'))
  const sources = globSync('cli/src/**/*.ts', { cwd: root }).map((path) => readFileSync(join(root, path), 'utf8'))
  const variables = sources.flatMap((source) => [...source.matchAll(/\benv\.((?:COFFER|XDG)_\w+|CI|NO_COLOR)\b/g)])
  for (const [, name = ''] of variables) expect(text).toContain(`\`${name}\``)
})

test('docs/sync.md explains every field of the mapping', () => {
  const page = readFileSync(join(root, 'docs/sync.md'), 'utf8')
  const section = /^## Mapping$([\s\S]*?)^## /m.exec(page)?.[1] ?? ''
  const documented = [...section.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, ids = '']) =>
    ids.replaceAll('`', '').split(', '),
  )
  for (const provider of providers) {
    expect(documented).toEqual(['environment', ...mappingFields(provider).map(({ id }) => id)])
  }
})

test('only pages for a checkout tell anybody to run npx coffer, whose name on npm is not ours', () => {
  const pages = ['*.md', 'docs/**/*.md', 'deploy/**/*'].flatMap((pattern) => globSync(pattern, { cwd: root }))
  const telling = pages.filter((page) => {
    const path = join(root, page)
    return (
      statSync(path).isFile() && /npx coffer|npm (i|install) .*(?<!\.\/)@?coffer\/cli/.test(readFileSync(path, 'utf8'))
    )
  })
  expect(telling.sort()).toEqual([
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'README.md',
    'docs/cli.md',
    'docs/first-minute.md',
  ])
})

test.each(['ARCHITECTURE.md', 'CONTRIBUTING.md'])('%s names only files and folders that exist', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const named = [...text.matchAll(/`((?:[\w.-]+\/)*[\w-]+(?:\.(?:ts|md|json)|\/))`/g)].map(([, path = '']) => path)
  const isThere = (path: string) =>
    [root, join(root, 'server/src')].some((folder) => existsSync(join(folder, path))) ||
    globSync(`{server/src,test}/**/${path.replace(/\/$/, '')}`, { cwd: root, exclude: ['**/node_modules'] }).length > 0
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((path) => !isThere(path))).toEqual([])
})

test('a release in CHANGELOG.md has its headings once, in the order of what an operator must know first', () => {
  const [, ...releases] = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').split(/^## /m)
  const order = ['What breaks', 'Added', 'Changed', 'Fixed']
  for (const release of releases) {
    const headings = [...release.matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading)
    expect(headings, release.split('\n')[0]).toEqual(order.filter((heading) => headings.includes(heading)))
  }
})
