/** The program itself: the Node that runs it. Unknown settings are refused by `readConfig`. */
import type { Config } from '../../config.ts'
import { type Check, note, ok, wrong } from './finding.ts'

const leastMajor = 24

export function programChecks(_config: Config): Check[] {
  return [{ name: 'Node', why: 'Coffer needs its features.', fix: 'install Node 24.', run: async () => judge() }]
}

function judge(version = process.versions.node) {
  const major = Number(version.split('.')[0])
  if (major < leastMajor) {
    return wrong(
      `version ${version} is too old`,
      'Coffer is tested on Node 24 and later.',
      `run it with Node ${leastMajor}.`,
    )
  }
  if (major % 2 === 0) return ok(`version ${version}`)
  return note(
    `version ${version} is not a long-term version`,
    'It gets security fixes for a few months only.',
    'use an even version, such as Node 24.',
  )
}
