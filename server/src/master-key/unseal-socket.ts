/**
 * The local socket by which shares reach a sealed service: one line in, one line out, then the connection ends. Only the
 * user of the service can open its folder.
 */
import { closeSync, constants, openSync } from 'node:fs'
import { chmod, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { codeOf } from '../error-code.ts'
import { makeFolder } from '../make-folder.ts'
import { MasterKeyError } from './error.ts'

export type UnsealAnswer = {
  /** False for a share that did not count. */
  readonly isAccepted: boolean
  readonly isUnsealed: boolean
  readonly message: string
}

const folderName = 'unseal'
const socketName = 'socket'
/** A peer that is slow or sends too much is disconnected; it holds up nobody. */
const timeoutMs = 10_000
const maxLineBytes = 1_024
const maxConnections = 16
/** The system allows about 100 bytes for the path of a socket. */
const maxPathBytes = 100

/** A short name for the folder, if its own is too long: Linux knows each open folder by a number. */
function openFolder(dataDir: string): { path: string; close(): void } {
  const folder = join(dataDir, folderName)
  const path = join(folder, socketName)
  if (Buffer.byteLength(path) <= maxPathBytes) return { path, close: () => undefined }
  if (process.platform !== 'linux') {
    throw new MasterKeyError(`The path ${folder} is too long for a socket: choose a shorter COFFER_DATA_DIR.`)
  }
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  return { path: `/proc/self/fd/${descriptor}/${socketName}`, close: () => closeSync(descriptor) }
}

export async function listenForShares(
  dataDir: string,
  answer: (line: Buffer) => Promise<UnsealAnswer>,
): Promise<{ close(): Promise<void> }> {
  const folder = join(dataDir, folderName)
  makeFolder(folder)
  await chmod(folder, 0o700)
  if (await isAnswered(dataDir)) {
    throw new MasterKeyError(
      `Another sealed service uses the folder ${dataDir}: give each its own COFFER_DATA_DIR, or stop it.`,
    )
  }
  await rm(join(folder, socketName), { force: true })
  const place = openFolder(dataDir)
  const server = createServer({ allowHalfOpen: true }, (socket) => void exchange(socket, answer))
  server.maxConnections = maxConnections
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: Error) =>
      reject(new MasterKeyError(`The socket in ${folder} cannot be made (${codeOf(error)}): check the folder.`))
    server.once('error', refuse).listen(place.path, () => {
      server.off('error', refuse)
      resolve()
    })
  })
  await chmod(join(folder, socketName), 0o600)
  return {
    close: async () => {
      await new Promise((resolve) => server.close(resolve))
      place.close()
      await rm(join(folder, socketName), { force: true })
    },
  }
}

async function exchange(socket: Socket, answer: (line: Buffer) => Promise<UnsealAnswer>): Promise<void> {
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  socket.on('error', () => socket.destroy()).on('close', () => clearTimeout(timer))
  try {
    const line = await readLine(socket)
    if (!line) return
    const said = await answer(line)
    line.fill(0)
    socket.end(`${JSON.stringify(said)}\n`)
  } catch {
    // No answer: the client says that the service did not answer.
  } finally {
    if (!socket.writableEnded) socket.destroy()
  }
}

/** Undefined if the peer ends without a whole line, or sends more than a line may hold. */
function readLine(socket: Socket): Promise<Buffer | undefined> {
  const line = Buffer.alloc(maxLineBytes)
  let length = 0
  return new Promise((resolve) => {
    const end = (found?: Buffer) => {
      socket.off('data', take).pause()
      if (!found) line.fill(0)
      resolve(found)
    }
    const take = (chunk: Buffer) => {
      const at = chunk.indexOf('\n')
      const part = at < 0 ? chunk : chunk.subarray(0, at)
      const isTooLong = length + part.length > maxLineBytes
      if (!isTooLong) length += part.copy(line, length)
      chunk.fill(0)
      if (isTooLong) end()
      else if (at >= 0) end(line.subarray(0, length))
    }
    socket
      .on('data', take)
      .once('end', () => end())
      .once('close', () => end())
  })
}

/** Hands one line to the sealed service; an empty one asks for its state. Undefined if no service listens. */
export async function handToService(dataDir: string, line: Uint8Array): Promise<UnsealAnswer | undefined> {
  let place: ReturnType<typeof openFolder>
  try {
    place = openFolder(dataDir)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw codeOf(error) === 'EACCES' ? foreignSocket(dataDir) : error
  }
  try {
    return await ask(place.path, line, dataDir)
  } finally {
    place.close()
  }
}

function ask(path: string, line: Uint8Array, dataDir: string): Promise<UnsealAnswer | undefined> {
  return new Promise((resolve, reject) => {
    const unanswered = () =>
      reject(new MasterKeyError('The sealed service did not answer: it may be busy or stopping; try again.'))
    let text = ''
    const socket = connect(path)
    socket.setTimeout(3 * timeoutMs, () => socket.destroy())
    socket.once('connect', () => {
      socket.write(line)
      socket.write('\n')
    })
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    socket.once('error', (error) => {
      if (['ENOENT', 'ECONNREFUSED'].includes(codeOf(error))) resolve(undefined)
      else if (codeOf(error) === 'EACCES') reject(foreignSocket(dataDir))
      else unanswered()
    })
    socket.once('close', () => {
      try {
        // The service is this program.
        resolve(JSON.parse(text) as UnsealAnswer)
      } catch {
        unanswered()
      }
    })
  })
}

const foreignSocket = (dataDir: string) =>
  new MasterKeyError(`The folder ${dataDir} belongs to another user (EACCES): run this as the user of the service.`)

const isAnswered = async (dataDir: string) =>
  (await handToService(dataDir, Buffer.alloc(0)).catch(() => undefined)) !== undefined
