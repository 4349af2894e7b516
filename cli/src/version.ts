/** The version of the command line. */
import { readCommit } from '../../commit.ts'
import manifest from '../package.json' with { type: 'json' }

export const { version } = manifest

/** `0.2.0 (1a2b3c4d5e6f)`, or the version alone if nobody knows the commit. */
export function describeVersion(): string {
  const commit = readCommit()
  return commit === undefined ? version : `${version} (${commit})`
}
