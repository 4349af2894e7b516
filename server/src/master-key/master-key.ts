/**
 * Loads the 32-byte master key from its source. A new key is never made if the database already has keys, since it
 * could not open them. Error messages hold no key material and no output of other programs.
 */
import { spawn } from 'node:child_process'
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { constants, link, open, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from '../error-code.ts'
import type { Outbound } from '../outbound.ts'
import { type AzureKeyVault, azureKeyVaultWrapping } from './azure-key-vault.ts'
import { MasterKeyError } from './error.ts'
import { type GoogleKms, googleKmsWrapping } from './google-kms.ts'
import type { Wrapping, WrappingOptions } from './key-service.ts'
import type { ShareSet } from './share.ts'
import { collectShares } from './share-collector.ts'
import { openShareInput, tooFewShares } from './share-input.ts'
import { type AwsKms, awsKmsWrapping, type Transit, transitWrapping } from './wrapping.ts'

export type MasterKeySource =
  | { kind: 'value'; value: string }
  | { kind: 'file'; path: string }
  | { kind: 'command'; command: string }
  | AwsKms
  | GoogleKms
  | AzureKeyVault
  | Transit
  | { kind: 'shares' }

/**
 * Wrapped key in the database, so that nodes need no local state. `list` begins with the one in use; others are former
 * ones that still lead to it. `saveIfAbsent` returns the stored key, which may be another node's.
 */
export type WrappedMaster = {
  list(): Promise<readonly string[]>
  saveIfAbsent(wrapped: string): Promise<string>
}

export type MasterKeyOptions = {
  wrapped: WrappedMaster
  outbound: Outbound
  env: Record<string, string | undefined>
  /** False if the database already has keys. No key is created then. */
  mayCreate: boolean
  commandTimeoutMs?: number
  /** Which shares open the store. Without any, the first share decides: a backup does not say. */
  shareSets?: readonly ShareSet[]
}

export async function loadMasterKey(source: MasterKeySource, options: MasterKeyOptions): Promise<Uint8Array> {
  switch (source.kind) {
    case 'value':
      return parseKey(source.value, 'COFFER_MASTER_KEY', options.mayCreate)
    case 'file':
      return loadFromFile(source.path, options.mayCreate)
    case 'command':
      return loadFromCommand(source.command, options)
    case 'shares':
      return loadFromShares(options.shareSets)
    default:
      return loadWrapped(wrappingOf(source, options), options)
  }
}

type WrappingSource = AwsKms | GoogleKms | AzureKeyVault | Transit

function wrappingOf(source: WrappingSource, options: WrappingOptions): Wrapping
function wrappingOf(source: MasterKeySource, options: WrappingOptions): Wrapping | undefined
function wrappingOf(source: MasterKeySource, options: WrappingOptions): Wrapping | undefined {
  switch (source.kind) {
    case 'aws-kms':
      return awsKmsWrapping(source, options)
    case 'google-kms':
      return googleKmsWrapping(source, options)
    case 'azure-key-vault':
      return azureKeyVaultWrapping(source, options)
    case 'transit':
      return transitWrapping(source, options)
    default:
      return undefined
  }
}

const keyBytes = 32
const missingKey = 'no other key opens what is stored'

/** Do not suggest a new key to an operator whose key is damaged: a new key would make the store unreadable. */
const putBack = 'restore the key that this database was created with, since no other key can open it'

function parseKey(text: string, origin: string, mayCreate: boolean): Uint8Array {
  const trimmed = text.trim()
  const isHex = /^[0-9a-f]{64}$/i.test(trimmed)
  if (!isHex && !/^([A-Za-z0-9+/]{43}|[A-Za-z0-9_-]{43})=?$/.test(trimmed)) {
    const remedy = mayCreate ? `"openssl rand -base64 ${keyBytes}" makes one` : putBack
    throw new MasterKeyError(`The master key from ${origin} must be ${keyBytes} bytes in base64 or hex; ${remedy}.`)
  }
  return requireKey(Buffer.from(trimmed, isHex ? 'hex' : 'base64'), origin, mayCreate)
}

/** Returns a copy and wipes the input, since small buffers share Node's memory pool. */
function requireKey(bytes: Uint8Array, origin: string, mayCreate: boolean): Uint8Array {
  if (bytes.length !== keyBytes) {
    throw new MasterKeyError(`The master key from ${origin} must be exactly ${keyBytes} bytes long.`)
  }
  if (bytes.every((byte) => byte === bytes[0])) {
    const remedy = mayCreate ? `use ${keyBytes} random bytes instead` : putBack
    throw new MasterKeyError(`The master key from ${origin} is a single repeated byte; ${remedy}.`)
  }
  const key = Uint8Array.from(bytes)
  bytes.fill(0)
  return key
}

async function loadFromFile(path: string, mayCreate: boolean): Promise<Uint8Array> {
  const found = await findKeyInFile(path, mayCreate)
  if (found === undefined && !mayCreate) {
    throw new MasterKeyError(`The master key file ${path} is missing; restore it, since ${missingKey}.`)
  }
  if (found !== undefined) {
    // Another process may have just created the file, so its folder is synced. A folder that cannot be opened means
    // that the operator provided the file.
    if (mayCreate) await syncFolder(path).catch(() => {})
    return found
  }

  await createKeyFile(path)
  await syncFolder(path)
  const created = await findKeyInFile(path, mayCreate)
  if (created === undefined) throw fileError(path, 'created', 'ENOENT')
  return created
}

async function findKeyInFile(path: string, mayCreate: boolean): Promise<Uint8Array | undefined> {
  // Without O_NONBLOCK, opening a named pipe would block the start forever.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw fileError(path, 'read', codeOf(error))
  })
  if (handle === undefined) return undefined

  try {
    // Uses the open handle instead of the path, so that the file checked is the file read.
    const status = await handle.stat()
    if (!status.isFile()) throw new MasterKeyError(`The master key file ${path} must be a regular file.`)
    if ((status.mode & 0o077) !== 0) {
      throw new MasterKeyError(`The master key file ${path} is open to other users; run "chmod 600" on it.`)
    }
    return parseKey(status.size > 1024 ? '' : await handle.readFile('utf8'), `the file ${path}`, mayCreate)
  } catch (error) {
    throw error instanceof MasterKeyError ? error : fileError(path, 'read', codeOf(error))
  } finally {
    await handle.close()
  }
}

/** Writes a temporary file, then links it: if two processes race, one wins, and neither sees half a key. */
async function createKeyFile(path: string): Promise<void> {
  const unfinishedPath = `${path}.${randomBytes(8).toString('hex')}.new`
  try {
    const handle = await open(unfinishedPath, 'wx', 0o600)
    try {
      await handle.writeFile(`${randomBytes(keyBytes).toString('base64')}\n`)
      await handle.sync()
      await link(unfinishedPath, path)
    } finally {
      await handle.close()
      await unlink(unfinishedPath)
    }
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw fileError(path, 'created', codeOf(error))
  }
}

/** Makes the new file name survive a power failure before any key depends on it. */
async function syncFolder(path: string): Promise<void> {
  try {
    const handle = await open(dirname(path), 'r')
    await handle.sync().finally(() => handle.close())
  } catch (error) {
    throw fileError(path, 'made durable', codeOf(error))
  }
}

async function loadFromCommand(command: string, options: MasterKeyOptions): Promise<Uint8Array> {
  const timeoutMs = options.commandTimeoutMs ?? 10_000
  const maxBytes = 1024
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const fail = (what: string) => reject(new MasterKeyError(`The master key command ${what}.`))
  const stop = (what: string) => {
    fail(what)
    shell.stdout.destroy()
    stopGroup(shell.pid)
  }

  // Runs in its own process group, so that stopping the shell also stops its children.
  const shell = spawn('/bin/sh', ['-c', command], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: options.env,
    detached: true,
  })
  const chunks: Buffer[] = []
  shell.stdout.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    if (chunks.reduce((total, { length }) => total + length, 0) > maxBytes) stop(`printed more than ${maxBytes} bytes`)
  })
  shell.on('error', () => fail('could not be started; check that /bin/sh exists'))
  shell.on('close', (status, signal) => {
    if (status === 0) resolve(Buffer.concat(chunks).toString('utf8'))
    else fail(`failed with ${status === null ? signal : `status ${status}`}; run it by hand to see why`)
  })
  const timer = setTimeout(() => stop(`did not finish within ${timeoutMs / 1000} seconds; run it by hand`), timeoutMs)

  try {
    return parseKey(await promise, 'the command', options.mayCreate)
  } finally {
    clearTimeout(timer)
  }
}

function stopGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has already ended.
  }
}

/** For commands; the service waits for its shares at a socket instead. */
async function loadFromShares(sets: readonly ShareSet[] | undefined): Promise<Uint8Array> {
  const shares = collectShares(sets)
  const input = openShareInput()
  try {
    while (true) {
      const wanted = shares.set ? ` of ${shares.set.threshold}` : ''
      const line = await input.next(`Share ${shares.given + 1}${wanted} of the master key (not shown): `)
      if (!line) throw tooFewShares(shares.given, shares.set?.threshold)
      try {
        const key = await shares.add(line)
        if (key) return key
      } catch (error) {
        if (!(error instanceof MasterKeyError)) throw error
        input.say(error.message)
      } finally {
        line.fill(0)
      }
    }
  } finally {
    input.close()
  }
}

async function loadWrapped(wrapping: Wrapping, { wrapped, mayCreate }: MasterKeyOptions): Promise<Uint8Array> {
  const prefix = `${wrapping.kind}:`
  let stored = await wrapped.list()
  if (stored.length === 0) {
    if (!mayCreate) {
      throw new MasterKeyError(
        `No master key wrapped by ${wrapping.name} is stored; use the source that it was first started with, since ${missingKey}.`,
      )
    }
    stored = [await wrapped.saveIfAbsent(prefix + (await wrapping.wrap(randomBytes(keyBytes))))]
  }
  let refusal: MasterKeyError | undefined
  for (const each of stored.filter((text) => text.startsWith(prefix))) {
    try {
      return requireKey(await wrapping.unwrap(each.slice(prefix.length)), wrapping.name, mayCreate)
    } catch (error) {
      if (!(error instanceof MasterKeyError)) throw error
      refusal ??= error
    }
  }
  const notOurs = `The stored master key was not wrapped by ${wrapping.name}; use the source that it was first started with.`
  throw refusal ?? new MasterKeyError(notOurs)
}

/** A new key for a store that has one, from its new source, which has proved that it gives the key back. */
export async function makeMasterKey(
  source: MasterKeySource,
  options: Omit<MasterKeyOptions, 'wrapped' | 'mayCreate'>,
): Promise<{ key: Uint8Array; wrapped: string | undefined }> {
  const nothingStored = { list: async () => [], saveIfAbsent: async (text: string) => text }
  const wrapping = wrappingOf(source, options)
  if (!wrapping) {
    return {
      key: await loadMasterKey(source, { ...options, wrapped: nothingStored, mayCreate: true }),
      wrapped: undefined,
    }
  }
  const key = Uint8Array.from(randomBytes(keyBytes))
  const wrapped = await wrapping.wrap(key)
  if (!timingSafeEqual(key, requireKey(await wrapping.unwrap(wrapped), wrapping.name, true))) {
    throw new MasterKeyError(`${wrapping.name} gives back another key than it was given; nothing was changed.`)
  }
  return { key, wrapped: `${wrapping.kind}:${wrapped}` }
}

function fileError(path: string, what: string, code: string): MasterKeyError {
  const remedy = code === 'ENOSPC' ? 'the disk is full: make room' : 'check its folder and permissions'
  return new MasterKeyError(`The master key file ${path} could not be ${what} (${code}); ${remedy}.`)
}
