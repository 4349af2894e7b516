/**
 * Where the 32-byte master key comes from. It is never made where the database already has keys, as a new one could not
 * open them, and no message here holds key material or what another program printed.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants, link, open, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from './error-code.ts'
import { MasterKeyError } from './master-key-error.ts'
import { type AwsKms, awsKmsWrapping, type Transit, transitWrapping, type Wrapping } from './master-key-wrapping.ts'
import type { Outbound } from './outbound.ts'

export type MasterKeySource =
  | { kind: 'value'; value: string }
  | { kind: 'file'; path: string }
  | { kind: 'command'; command: string }
  | AwsKms
  | Transit

/** Kept in the database, so that nodes need no state of their own; `saveIfAbsent` returns the one that won. */
export type WrappedMaster = {
  find(): Promise<string | undefined>
  saveIfAbsent(wrapped: string): Promise<string>
}

export type MasterKeyOptions = {
  wrapped: WrappedMaster
  outbound: Outbound
  env: Record<string, string | undefined>
  /** False where the database already has keys: then nothing is ever created. */
  mayCreate: boolean
  commandTimeoutMs?: number
}

export async function loadMasterKey(source: MasterKeySource, options: MasterKeyOptions): Promise<Uint8Array> {
  switch (source.kind) {
    case 'value':
      return parseKey(source.value, 'COFFER_MASTER_KEY', options.mayCreate)
    case 'file':
      return loadFromFile(source.path, options.mayCreate)
    case 'command':
      return loadFromCommand(source.command, options)
    case 'aws-kms':
      return loadWrapped(awsKmsWrapping(source, options), options)
    case 'transit':
      return loadWrapped(transitWrapping(source, options), options)
  }
}

const keyBytes = 32
const missingKey = 'the database already has keys that a new master key could not open'

/** Whoever has lost a part of the key must not be told how to make another one: that would be the end of the store. */
const putBack = 'put back the key that this database was made with, since no other one opens it'

function parseKey(text: string, origin: string, mayCreate: boolean): Uint8Array {
  const trimmed = text.trim()
  const isHex = /^[0-9a-f]{64}$/i.test(trimmed)
  if (!isHex && !/^([A-Za-z0-9+/]{43}|[A-Za-z0-9_-]{43})=?$/.test(trimmed)) {
    const remedy = mayCreate ? `"openssl rand -base64 ${keyBytes}" makes one` : putBack
    throw new MasterKeyError(`The master key from ${origin} must be ${keyBytes} bytes in base64 or hex; ${remedy}.`)
  }
  return requireKey(Buffer.from(trimmed, isHex ? 'hex' : 'base64'), origin, mayCreate)
}

/** Returns a copy and wipes what was given, which for small buffers lies in memory that Node shares. */
function requireKey(bytes: Uint8Array, origin: string, mayCreate: boolean): Uint8Array {
  if (bytes.length !== keyBytes) {
    throw new MasterKeyError(`The master key from ${origin} must be exactly ${keyBytes} bytes long.`)
  }
  if (bytes.every((byte) => byte === bytes[0])) {
    const remedy = mayCreate ? `use ${keyBytes} random bytes instead` : putBack
    throw new MasterKeyError(`The master key from ${origin} is one byte repeated; ${remedy}.`)
  }
  const key = Uint8Array.from(bytes)
  bytes.fill(0)
  return key
}

async function loadFromFile(path: string, mayCreate: boolean): Promise<Uint8Array> {
  const found = await findKeyInFile(path, mayCreate)
  if (found === undefined && !mayCreate) {
    throw new MasterKeyError(`The master key file ${path} is missing; put it back, since ${missingKey}.`)
  }
  if (found !== undefined) {
    // Another process may have made it a moment ago; where the folder cannot be opened, the operator brought the file.
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
  // Without O_NONBLOCK a named pipe would hold the start for ever.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw fileError(path, 'read', codeOf(error))
  })
  if (handle === undefined) return undefined

  try {
    // Of the open handle, not of the path: the file that is checked is the file that is read.
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

/** Written in full under another name, then linked: of two processes one wins, and none ever sees half a key. */
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

/** Keys must not rest on a name that a power cut could undo. */
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

  // A group of its own, so that stopping the shell also stops what it started.
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
  const timer = setTimeout(() => stop(`did not end within ${timeoutMs / 1000} seconds; run it by hand`), timeoutMs)

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
    // The group has ended by itself in the meantime.
  }
}

async function loadWrapped(wrapping: Wrapping, { wrapped, mayCreate }: MasterKeyOptions): Promise<Uint8Array> {
  const prefix = `${wrapping.kind}:`
  let stored = await wrapped.find()
  if (stored === undefined) {
    if (!mayCreate) {
      throw new MasterKeyError(
        `No master key wrapped by ${wrapping.name} is stored; use the source that it was first started with, since ${missingKey}.`,
      )
    }
    stored = await wrapped.saveIfAbsent(prefix + (await wrapping.wrap(randomBytes(keyBytes))))
  }
  if (!stored.startsWith(prefix)) {
    throw new MasterKeyError(
      `The stored master key was not wrapped by ${wrapping.name}; use the source that it was first started with.`,
    )
  }
  return requireKey(await wrapping.unwrap(stored.slice(prefix.length)), wrapping.name, mayCreate)
}

function fileError(path: string, what: string, code: string): MasterKeyError {
  const remedy = code === 'ENOSPC' ? 'the disk is full: make room' : 'check its folder and its rights'
  return new MasterKeyError(`The master key file ${path} could not be ${what} (${code}); ${remedy}.`)
}
