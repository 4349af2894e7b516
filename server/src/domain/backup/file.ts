/**
 * A backup on disk: 16 bytes that name the format, the header (length and JSON), then frames (kind, length, sealed and
 * compressed content). The last frame holds the manifest, and nothing follows it.
 */
import type { KeyObject } from 'node:crypto'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import { openFrame, sealFrame } from '../../crypto/backup-frame.ts'
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'
import type { BackupHeader } from './manifest.ts'

const magic = Buffer.from('coffer-backup-1\n')
const lengthBytes = 4
const frameHeadBytes = 1 + lengthBytes
const maxHeaderBytes = 1024 * 1024
/** A frame is larger than `frameBytes` only for a single large row. */
const maxFrameBytes = 256 * 1024 * 1024

/** Rows are compressed and sealed in pieces of about this size, so that no reader needs more memory. */
export const frameBytes = 1024 * 1024

type FrameKind = 'table' | 'rows' | 'manifest'
const codes: Record<FrameKind, number> = { table: 0x54, rows: 0x52, manifest: 0x4d }

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

export const damaged = (what: string) =>
  new Failure('integrity', `The backup is damaged: ${what}. Use another backup, or another copy of this one.`)

export function headerBytes(header: BackupHeader): Buffer {
  const json = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(lengthBytes)
  length.writeUInt32BE(json.length)
  return Buffer.concat([magic, length, json])
}

export type BackupDraft = {
  add(kind: FrameKind, content: Uint8Array): Promise<void>
  /** Makes the file durable and gives it its name. */
  keep(): Promise<void>
  /** Removes what was written, unless it was kept. */
  discard(): Promise<void>
}

/** Writes to `<path>.part`: a file with its final name is complete. */
export async function createBackupFile(path: string, header: Buffer, key: KeyObject): Promise<BackupDraft> {
  const part = `${path}.part`
  const explain = async <Result>(work: Promise<Result>): Promise<Result> => {
    try {
      return await work
    } catch (error) {
      // Without its cause, which would be taken for a problem of the store's disk.
      throw new Failure('unavailable', writeProblem(path, codeOf(error)))
    }
  }
  const handle = await explain(open(part, 'w', 0o600))
  let index = 0
  let isKept = false
  const discard = async () => {
    await handle.close()
    if (!isKept) await rm(part, { force: true })
  }
  await explain(handle.writeFile(header)).catch(async (error: unknown) => {
    await discard()
    throw error
  })
  return {
    async add(kind, content) {
      const sealed = sealFrame(key, kind, index++, await compress(content))
      const head = Buffer.alloc(frameHeadBytes)
      head.writeUInt8(codes[kind])
      head.writeUInt32BE(sealed.length, 1)
      await explain(handle.writeFile(Buffer.concat([head, sealed])))
    },
    async keep() {
      await explain(handle.sync())
      await explain(rename(part, path))
      isKept = true
      await explain(syncFolder(dirname(path)))
    },
    discard,
  }
}

function writeProblem(path: string, code: string): string {
  if (code === 'ENOENT') return `The folder ${dirname(path)} does not exist: create it first.`
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return `The disk of ${path} is full (${code}): make room, or choose another place.`
  }
  return `The file ${path} cannot be written (${code}).`
}

/** A rename survives a power failure only once the folder is synced. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export type BackupFile = {
  readonly header: BackupHeader
  readonly headerBytes: Buffer
  readonly bytes: number
  /** Throws `integrity` if the frame that begins at `at` is damaged, moved or missing. */
  readFrame(key: KeyObject, index: number, at: number): Promise<Frame>
  /** `readFrame` for all frames in their order. */
  frames(key: KeyObject): AsyncGenerator<Frame>
  close(): Promise<void>
}
type Frame = { readonly kind: FrameKind; readonly content: Buffer; readonly endsAt: number }

export async function openBackupFile(path: string): Promise<BackupFile> {
  const handle = await open(path).catch((cause: unknown) => {
    const code = codeOf(cause)
    const problem = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`
    throw new Failure('notFound', `The backup ${path} ${problem}.`, { cause })
  })
  try {
    const stat = await handle.stat()
    if (stat.isDirectory()) throw new Failure('notFound', `${path} is a folder: name the file of a backup.`)
    const { size } = stat
    const read = (at: number, length: number) => readExactly(handle, at, length, size)
    const start = await read(0, Math.min(size, magic.length))
    if (!start.equals(magic)) throw new Failure('integrity', `${path} is not a backup that this version can read.`)
    const length = (await read(magic.length, lengthBytes)).readUInt32BE()
    if (length > maxHeaderBytes) throw damaged('its header is not readable')
    const bytes = await read(0, magic.length + lengthBytes + length)
    const header = parseHeader(bytes.subarray(magic.length + lengthBytes))
    const readFrame: BackupFile['readFrame'] = (key, index, at) => frameAt(read, key, index, at, size)
    return {
      header,
      headerBytes: bytes,
      bytes: size,
      readFrame,
      frames: (key) => framesOf((index, at) => readFrame(key, index, at), bytes.length),
      close: () => handle.close(),
    }
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function readExactly(handle: FileHandle, at: number, length: number, size: number): Promise<Buffer> {
  if (at + length > size) throw damaged('its end is missing')
  const bytes = Buffer.allocUnsafe(length)
  let done = 0
  while (done < length) {
    const { bytesRead } = await handle.read(bytes, done, length - done, at + done)
    if (bytesRead === 0) throw damaged('its end is missing')
    done += bytesRead
  }
  return bytes
}

/** Untrusted until the first frame opens, since the key of the frames depends on these bytes. */
function parseHeader(json: Buffer): BackupHeader {
  try {
    const header: unknown = JSON.parse(json.toString('utf8'))
    if (isHeader(header)) return header
  } catch {
    // Not JSON: damaged, as below.
  }
  throw damaged('its header is not readable')
}

function isHeader(value: unknown): value is BackupHeader {
  if (typeof value !== 'object' || value === null) return false
  const { id, createdAt, version, schemaStep, rootId, roots, wrappedMaster } = Object.assign({ ...emptyHeader }, value)
  return (
    [id, version, rootId].every((text) => typeof text === 'string') &&
    [createdAt, schemaStep].every(Number.isSafeInteger) &&
    (wrappedMaster === null || typeof wrappedMaster === 'string') &&
    Array.isArray(roots) &&
    roots.every((root) => [root?.id, root?.wrapped, root?.checkValue].every((text) => typeof text === 'string'))
  )
}

const emptyHeader: Record<keyof BackupHeader, unknown> = {
  id: undefined,
  createdAt: undefined,
  version: undefined,
  schemaStep: undefined,
  rootId: undefined,
  roots: undefined,
  wrappedMaster: undefined,
}

async function* framesOf(
  readFrame: (index: number, at: number) => Promise<Frame>,
  start: number,
): AsyncGenerator<Frame> {
  let at = start
  for (let index = 0; ; index++) {
    const frame = await readFrame(index, at)
    yield frame
    if (frame.kind === 'manifest') return
    at = frame.endsAt
  }
}

async function frameAt(
  read: (at: number, length: number) => Promise<Buffer>,
  key: KeyObject,
  index: number,
  at: number,
  size: number,
): Promise<Frame> {
  const head = await read(at, frameHeadBytes)
  const kind = kindOf(head.readUInt8())
  const length = head.readUInt32BE(1)
  if (kind === undefined || length > maxFrameBytes) throw damaged(`frame ${index + 1} is not readable`)
  const sealed = await read(at + frameHeadBytes, length)
  const endsAt = at + frameHeadBytes + length
  const content = await openContent(key, kind, index, sealed)
  if (kind === 'manifest' && endsAt !== size) throw damaged('there is data after its end')
  return { kind, content, endsAt }
}

async function openContent(key: KeyObject, kind: FrameKind, index: number, sealed: Buffer): Promise<Buffer> {
  try {
    return await decompress(openFrame(key, kind, index, sealed), { maxOutputLength: maxFrameBytes })
  } catch {
    throw damaged(`frame ${index + 1} was changed or is not in its place`)
  }
}

function kindOf(code: number): FrameKind | undefined {
  if (code === codes.table) return 'table'
  if (code === codes.rows) return 'rows'
  return code === codes.manifest ? 'manifest' : undefined
}
