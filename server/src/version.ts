import { readFileSync } from 'node:fs'
import { readCommit } from '../../commit.ts'
import { installation } from './installation.ts'

/** The version of the server, from its package.json. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(installation.manifest, 'utf8'))
  return version
}

/** `0.2.0 (1a2b3c4d5e6f)`, or the version alone if nobody knows the commit. */
export function describeVersion(): string {
  const commit = readCommit()
  return commit === undefined ? readVersion() : `${readVersion()} (${commit})`
}
