/**
 * The key of the offline cache. With a token it is derived from the token and nothing is stored. With a login it is random
 * and kept where the session is: in the keychain, or in a file that only this user can read. The file protects backups of
 * the cache, not against this user.
 */
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Environment, isSet } from '../environment.ts'
import { deleteKeychain, readKeychain, writeKeychain } from '../session/keychain.ts'
import { configFolder, makeFolder, readLogins } from '../session/login-file.ts'

export type CacheKey = {
  /** Tells credentials apart without revealing one. */
  readonly credentialId: string
  readonly key: Uint8Array
}

const keyBytes = 32
const podTokenFile = '/var/run/coffer/token'

/** Undefined where no key can be kept: then there is no cache. Chooses the credential in the order of the SDK. */
export async function findCacheKey(
  env: Environment,
  url: string,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<CacheKey | undefined> {
  const token = env.COFFER_TOKEN || (env.COFFER_TOKEN_FILE && readText(env.COFFER_TOKEN_FILE))
  if (token) return keyOfToken(token.trim())
  // Tokens of a platform are new in each job, so that no later run could read what this one keeps.
  if (env.COFFER_TOKEN_FILE || env.ACTIONS_ID_TOKEN_REQUEST_URL || env.COFFER_ID_TOKEN || env.COFFER_ID_TOKEN_FILE) {
    return undefined
  }
  if (isSet(env.KUBERNETES_SERVICE_HOST) && existsSync(podTokenFile)) return undefined
  const login = readLogins(env).byUrl[url]
  if (!login) return undefined
  const key = (login.store === 'keychain' ? await keyOfKeychain(mayCreate) : undefined) ?? keyOfFile(env, mayCreate)
  return key && { credentialId: `user ${login.userId}`, key }
}

function keyOfToken(token: string): CacheKey {
  const { hkdfSync } = process.getBuiltinModule('node:crypto')
  const derived = Buffer.from(hkdfSync('sha256', token, '', 'coffer offline cache', 16 + keyBytes))
  return { credentialId: `token ${derived.toString('hex', 0, 16)}`, key: derived.subarray(16) }
}

const keychainName = 'offline cache'

async function keyOfKeychain(mayCreate: boolean): Promise<Uint8Array | undefined> {
  const kept = Buffer.from((await readKeychain(keychainName)) ?? '', 'base64')
  if (kept.length === keyBytes) return kept
  if (!mayCreate) return undefined
  const key = process.getBuiltinModule('node:crypto').randomBytes(keyBytes)
  return (await writeKeychain(keychainName, key.toString('base64'))) ? key : undefined
}

/** Afterwards nobody can decrypt a copy of the cache. */
export async function forgetCacheKey(env: Environment): Promise<void> {
  const path = cacheKeyFile(env)
  if (path && existsSync(path)) rmSync(path, { force: true })
  await deleteKeychain(keychainName)
}

export function cacheKeyFile(env: Environment): string | undefined {
  const folder = configFolder(env)
  return folder && join(folder, 'key')
}

function keyOfFile(env: Environment, mayCreate: boolean): Uint8Array | undefined {
  const path = cacheKeyFile(env)
  if (!path) return undefined
  return readPrivateFile(path, keyBytes) ?? (existsSync(path) || !mayCreate ? undefined : createKey(path))
}

function createKey(path: string): Uint8Array | undefined {
  const fresh = `${path}.${process.pid}`
  try {
    makeFolder(dirname(path))
    writeFileSync(fresh, process.getBuiltinModule('node:crypto').randomBytes(keyBytes), { mode: 0o600, flag: 'wx' })
    // Unlike a rename, a link does not replace the key that another command has made in the meantime.
    linkSync(fresh, path)
  } catch {
    // Another command was first, or the folder cannot be written to.
  } finally {
    rmSync(fresh, { force: true })
  }
  return readPrivateFile(path, keyBytes)
}

/** Undefined for a file that is missing, too large, a link, or that anybody else owns or can read. */
export function readPrivateFile(path: string, maxBytes: number): Buffer | undefined {
  let file: number | undefined
  try {
    file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0))
    const { uid, mode, size } = fstatSync(file)
    const isOwn = process.getuid === undefined || (uid === process.getuid() && (mode & 0o077) === 0)
    const isRegular = (mode & constants.S_IFMT) === constants.S_IFREG
    return isOwn && isRegular && size <= maxBytes ? readFileSync(file) : undefined
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** A pipe, such as that of `<(command)`, can be read only once: it is left to the SDK. */
function readText(path: string): string | undefined {
  try {
    return statSync(path).isFile() ? readFileSync(path, 'utf8') : undefined
  } catch {
    return undefined
  }
}
