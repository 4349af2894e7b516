import { installPackages, isInstalled } from '../test/debian-package.ts'

/** Installs the Debian package of the same name if possible; otherwise returns the reason why not. */
export function requireProgram(program: string): string | undefined {
  if (isInstalled(program)) return undefined
  if (process.getuid?.() !== 0) return `needs ${program}, and root to install it`
  installPackages([program])
  return isInstalled(program) ? undefined : `needs ${program}, which could not be installed`
}
