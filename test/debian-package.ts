/** Programs that npm does not bring: from Debian's packages, where that is possible. */
import { spawnSync } from 'node:child_process'

export function isAtHand(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0
}

/** Whether it worked is seen by what is at hand afterwards: there may be no Debian, no network or no root. */
export function installPackages(packages: readonly string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', ['update', '-qq'], { env, stdio: 'ignore' })
  spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], { env, stdio: 'ignore' })
}
