/** How `npm start` runs the service, for tests and measurements of memory: options of Node and settings of its allocator. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const { scripts }: { scripts: { start: string } } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
)
const words = scripts.start.replace(/^.* && exec env /, '').split(' ')
const program = words.indexOf('node')

export const startEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  words.slice(0, program).map((word) => word.split('=')),
)
export const nodeOptions: readonly string[] = words.slice(program + 1).filter((word) => word.startsWith('-'))
/** From the folder of the repository. */
export const startArguments: readonly string[] = words.slice(program + 1)
