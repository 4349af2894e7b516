import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The version of the server, from its package.json. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(
    readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
  )
  return version
}
