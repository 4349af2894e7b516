import { readFileSync } from 'node:fs'
import { installation } from './installation.ts'

/** The version of the server, from its package.json. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(installation.manifest, 'utf8'))
  return version
}
