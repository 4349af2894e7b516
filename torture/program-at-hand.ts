/** Programs that npm does not bring. */
import { installPackages, isAtHand } from '../test/debian-package.ts'

/** Installs the Debian package of the same name where that is possible; says why not otherwise. */
export function demand(program: string): string | undefined {
  if (isAtHand(program)) return undefined
  if (process.getuid?.() !== 0) return `needs ${program}, and root to install it`
  installPackages([program])
  return isAtHand(program) ? undefined : `needs ${program}, which could not be installed`
}
