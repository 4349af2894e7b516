/** Reads the setup code that a service on this machine keeps in its data folder until the first account exists. */
import { join } from 'node:path'
import { readPrivateFile } from '../cache/cache-key.ts'
import type { Environment } from '../environment.ts'

const maxBytes = 200

/** Looks where the service keeps the file if it was started in the same folder as this program. */
export function findSetupCode(env: Environment, url: string): string | undefined {
  if (!/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname)) return undefined
  const file = readPrivateFile(join(env.COFFER_DATA_DIR || 'data', 'setup-code'), maxBytes)
  return file?.toString().trim() || undefined
}
