/** Programs that npm does not bring. */
import { spawnSync } from 'node:child_process'

/** Installs the Debian package of the same name where that is possible; says why not otherwise. */
export function demand(program: string): string | undefined {
  if (isAtHand(program)) return undefined
  if (process.getuid?.() !== 0) return `needs ${program}, and root to install it`
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', program], { env, stdio: 'ignore' })
  return isAtHand(program) ? undefined : `needs ${program}, which could not be installed`
}

function isAtHand(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0
}
