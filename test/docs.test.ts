/** What is written about settings is made from the settings themselves. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { settings } from '../server/src/config.ts'

const root = join(import.meta.dirname, '..')

test('docs/operation.md lists every setting with its default', () => {
  const rows = settings.map(({ name, default: value, meaning }) => `| \`${name}\` | ${value} | ${meaning} |`)
  const table = ['| Name | Default | Meaning |', '|---|---|---|', ...rows].join('\n')
  const page = readFileSync(join(root, 'docs/operation.md'), 'utf8')
  expect(/<!-- settings -->\n([\s\S]*?)\n<!-- \/settings -->/.exec(page)?.[1]).toBe(table)
})
