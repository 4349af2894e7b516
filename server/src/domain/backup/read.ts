/** Reads a backup from its start to its end, with the memory of one frame, and checks all of it on the way. */
import { createHash, type Hash, type KeyObject } from 'node:crypto'
import { backupFileKey } from '../../crypto/backup-frame.ts'
import { Failure, isFailure } from '../../failure.ts'
import type { Cell } from '../../store/engine/table-reader.ts'
import type { Keys, MasterAccess } from '../../store/key/key.ts'
import { type BackupFile, damaged, openBackupFile } from './file.ts'
import { type BackupHeader, type BackupOptions, contentDigest, type Manifest, type TableEntry } from './manifest.ts'
import { decodeRows } from './row-codec.ts'

export type BackupTable = Pick<TableEntry, 'name' | 'columns'>
type OnRows = (table: BackupTable, rows: () => Generator<Cell[]>) => Promise<void>

const wrongKey = () =>
  new Failure(
    'integrity',
    'The master key does not open this backup: use the key that its store had. If it is that key, the file is damaged.',
  )

/** Throws `integrity` if another master key belongs to the backup. */
export function unlockBackup({ header, headerBytes }: BackupFile, master: MasterAccess): KeyObject {
  try {
    return backupFileKey(master.openRoot(wrappedRoot(header)), headerBytes)
  } catch (cause) {
    throw isFailure(cause, 'integrity') ? wrongKey() : cause
  }
}

/** Installations may share a master key, but not a root key. Throws `integrity` if the master key is another one. */
export async function isOwnBackup(
  path: string,
  { master, keyring }: Pick<Keys, 'master' | 'keyring'>,
): Promise<boolean> {
  const file = await openBackupFile(path)
  try {
    unlockBackup(file, master)
    return keyring.find(file.header.rootId) !== undefined
  } finally {
    await file.close()
  }
}

function wrappedRoot({ roots, rootId }: BackupHeader) {
  const root = roots.find(({ id }) => id === rootId)
  if (!root) throw wrongKey()
  const bytes = (text: string) => Buffer.from(text, 'base64')
  return { id: root.id, wrapped: bytes(root.wrapped), checkValue: bytes(root.checkValue) }
}

/**
 * Returns the manifest, which was compared with all rows before it. `onRows` gets rows whose frame is genuine, but the
 * end of the file is known to be there only afterwards.
 */
export async function readBackup(
  file: BackupFile,
  key: KeyObject,
  stage: 'check' | 'load',
  options: BackupOptions,
  onRows: OnRows = async () => undefined,
): Promise<Manifest> {
  const tables: TableEntry[] = []
  let current: (BackupTable & { rows: number; readonly hash: Hash }) | undefined
  const closeTable = () => {
    if (!current) return
    const { name, columns, rows, hash } = current
    tables.push({ name, columns, rows, digest: hash.digest('hex') })
  }
  for await (const { kind, content, endsAt } of file.frames(key)) {
    options.signal?.throwIfAborted()
    options.onProgress?.({ stage, done: endsAt, total: file.bytes })
    if (kind === 'manifest') {
      closeTable()
      return requireSame(parse<Manifest>(content), tables)
    }
    if (kind === 'table') {
      closeTable()
      current = { ...parse<BackupTable>(content), rows: 0, hash: createHash('sha256') }
      continue
    }
    if (!current) throw damaged('there are rows before the first table')
    const rows = content.subarray(4)
    current.rows += content.readUInt32BE()
    current.hash.update(rows)
    const { columns } = current
    await onRows(current, () => decodeRows(rows, columns.length))
  }
  throw damaged('its end is missing')
}

/** The cast is safe: only a frame that this module's writer has sealed gets here. */
const parse = <Content>(content: Buffer) => JSON.parse(content.toString('utf8')) as Content

function requireSame(manifest: Manifest, tables: readonly TableEntry[]): Manifest {
  const isSame = JSON.stringify(manifest.tables) === JSON.stringify(tables)
  if (!isSame || manifest.digest !== contentDigest(tables)) throw damaged('its rows are not those of its manifest')
  return manifest
}
