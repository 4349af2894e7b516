/**
 * What the last run has read, for the time that the service cannot be reached. Each environment is one file, encrypted
 * with AES-256-GCM. The place and the credential that it belongs to are authenticated with it, so that no file can stand in
 * for another. Whatever is wrong with a file, it counts as no cache.
 */
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Snapshot } from '@coffer/sdk'
import type { Environment } from '../environment.ts'
import { CliError } from '../error.ts'
import { homeOf, makeFolder } from '../session/login-file.ts'
import { type CacheKey, forgetCacheKey, readPrivateFile } from './cache-key.ts'

/** Everything that an answer depends on. */
type CachePlace = {
  readonly url: string
  readonly workspace: string | undefined
  readonly project: string | undefined
  readonly environment: string | undefined
  readonly onUnresolved: string
}

export type Cached = { readonly snapshot: Snapshot; readonly fetchedAt: number }

export type CacheFile = {
  /** Undefined if there is none that can be trusted. */
  read(now: number): Cached | undefined
  /** False if it cannot be written, such as in a home that is read-only. */
  write(snapshot: Snapshot, now: number): boolean
  /** Whatever is kept of this environment, also for another `onUnresolved`. */
  remove(): void
}

const format = 1
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + nonceBytes + tagBytes
const maxBytes = 256 * 1024 * 1024

export function openCacheFile(
  env: Environment,
  place: CachePlace,
  { credentialId, key }: CacheKey,
): CacheFile | undefined {
  const folder = cacheFolder(env)
  if (!folder) return undefined
  const crypto = process.getBuiltinModule('node:crypto')
  const { url, workspace, project, environment, onUnresolved } = place
  const ownerWith = (way: string) =>
    Buffer.from(JSON.stringify([format, url, credentialId, workspace, project, environment, way]))
  const pathOf = (owner: Buffer) => join(folder, crypto.hash('sha256', owner))
  const owner = ownerWith(onUnresolved)
  const path = pathOf(owner)

  function decrypt(bytes: Buffer): unknown {
    const decipher = crypto.createDecipheriv('aes-256-gcm', key, bytes.subarray(1, 1 + nonceBytes), {
      authTagLength: tagBytes,
    })
    decipher.setAAD(owner)
    decipher.setAuthTag(bytes.subarray(1 + nonceBytes, headBytes))
    const plaintext = decipher.update(bytes.subarray(headBytes))
    decipher.final()
    return JSON.parse(plaintext.toString('utf8'))
  }

  function encrypt(content: Cached): Buffer {
    const nonce = crypto.randomBytes(nonceBytes)
    const cipher = crypto.createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    cipher.setAAD(owner)
    const ciphertext = Buffer.concat([cipher.update(JSON.stringify(content), 'utf8'), cipher.final()])
    return Buffer.concat([Buffer.of(format), nonce, cipher.getAuthTag(), ciphertext])
  }

  return {
    read(now) {
      const bytes = readPrivateFile(path, maxBytes)
      if (!bytes || bytes.length < headBytes || bytes[0] !== format) return undefined
      try {
        // Only `write` below can have made it: it is authenticated.
        const cached = decrypt(bytes) as Cached
        return cached.fetchedAt <= now ? cached : undefined
      } catch {
        return undefined
      }
    },
    write(snapshot, now) {
      const fresh = `${path}.${process.pid}`
      try {
        makeFolder(folder)
        writeFileSync(fresh, encrypt({ snapshot, fetchedAt: now }), { mode: 0o600, flag: 'wx' })
        renameSync(fresh, path)
        return true
      } catch {
        removeFile(fresh)
        return false
      }
    },
    remove() {
      for (const way of ['error', 'keep', 'empty']) removeFile(pathOf(ownerWith(way)))
    },
  }
}

function removeFile(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // In a folder that cannot be written to.
  }
}

function cacheFolder(env: Environment): string | undefined {
  const home = homeOf(env)
  const base = env.XDG_CACHE_HOME || (home && join(home, '.cache'))
  return base ? join(base, 'coffer') : undefined
}

/** Removes all cached values of this user, and the key that could decrypt a copy of them. */
export async function wipeCache(env: Environment): Promise<void> {
  const folder = cacheFolder(env)
  try {
    if (folder) rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    // A home such as /dev/null has no folders.
    if (existsSync(folder ?? '')) throw new CliError('failure', `${folder} cannot be removed (${code}).`)
  }
  await forgetCacheKey(env)
}
