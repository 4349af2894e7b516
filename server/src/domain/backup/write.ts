/** Writes a backup of the whole store while the service runs: every row as it is stored, from one moment. */
import { backupFileKey } from '../../crypto/backup-frame.ts'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { Cell, TableReader, TableShape } from '../../store/engine/table-reader.ts'
import { steps } from '../../store/migrate.ts'
import { backedUpNames } from '../../store/table-list.ts'
import type { Context } from '../context.ts'
import { encodeTable } from './encode-table.ts'
import { type BackupDraft, createBackupFile, headerBytes } from './file.ts'
import {
  type BackupHeader,
  type BackupOptions,
  type ChainHead,
  contentDigest,
  type Manifest,
  maxHeads,
  type TableEntry,
} from './manifest.ts'

type WriteContext = Pick<Context, 'engine' | 'keys' | 'version' | 'now'>

/** The file appears under its name once it is complete and durable. Only `verifyBackup` makes it a backup to rely on. */
export async function writeBackup(ctx: WriteContext, file: string, options: BackupOptions = {}): Promise<Manifest> {
  options.onProgress?.({ stage: 'copy', done: 0, total: 0 })
  return ctx.engine.readTables(backedUpNames(steps.length), async (reader) => {
    if (reader.steps !== steps.length) {
      throw new Failure(
        'internal',
        `The store is at step ${reader.steps}, this version knows ${steps.length}: run the command of the version that serves it.`,
      )
    }
    const tables = await reader.shapes(backedUpNames(reader.steps))
    const header = await describeStore(ctx, reader, tables)
    const bytes = headerBytes(header)
    const root = await ctx.keys.requireRoot(header.rootId)
    const draft = await createBackupFile(file, bytes, backupFileKey(root, bytes))
    try {
      const written = await writeTables(draft, reader, tables, options)
      const manifest = await composeManifest(header, reader, tables, written)
      await draft.add('manifest', Buffer.from(JSON.stringify(manifest)))
      await draft.keep()
      return manifest
    } finally {
      await draft.discard()
    }
  })
}

async function describeStore(
  ctx: WriteContext,
  reader: TableReader,
  tables: readonly TableShape[],
): Promise<BackupHeader> {
  const rows = await readAll(reader, requireTable(tables, 'root_key'))
  const text = (bytes: Cell | undefined) => (bytes instanceof Uint8Array ? Buffer.from(bytes).toString('base64') : '')
  const [instance] = await readAll(reader, requireTable(tables, 'instance'))
  const wrappedMaster = instance?.wrapped_master
  return {
    id: newId(),
    createdAt: ctx.now(),
    version: ctx.version,
    schemaStep: reader.steps,
    rootId: String(rows.find((row) => row.is_active === 1)?.id),
    roots: rows.map((row) => ({
      id: String(row.id),
      wrapped: text(row.wrapped),
      checkValue: text(row.check_value),
    })),
    wrappedMaster: typeof wrappedMaster === 'string' ? wrappedMaster : null,
  }
}

async function composeManifest(
  header: BackupHeader,
  reader: TableReader,
  tables: readonly TableShape[],
  written: readonly TableEntry[],
): Promise<Manifest> {
  const { id, createdAt, version, schemaStep, rootId, roots } = header
  const [instance] = await readAll(reader, requireTable(tables, 'instance'))
  const generation = instance?.generation
  return {
    id,
    createdAt,
    version,
    schemaStep,
    generation: typeof generation === 'string' ? generation : null,
    keyFingerprint: Buffer.from(roots.find((root) => root.id === rootId)?.checkValue ?? '', 'base64').toString('hex'),
    tables: written,
    digest: contentDigest(written),
    auditChains: written.find(({ name }) => name === 'audit_head')?.rows ?? 0,
    auditHeads: await listHeads(reader, requireTable(tables, 'audit_head')),
  }
}

async function writeTables(
  draft: BackupDraft,
  reader: TableReader,
  tables: readonly TableShape[],
  { onProgress, signal }: BackupOptions,
): Promise<TableEntry[]> {
  let total = 0
  for (const table of tables) total += await reader.count(table)
  let done = 0
  const written: TableEntry[] = []
  for (const table of tables) {
    const { name } = table
    const columns = table.columns.map((column) => column.name)
    await draft.add('table', Buffer.from(JSON.stringify({ name, columns })))
    const entry = await encodeTable(reader, table, async (bytes, rows) => {
      signal?.throwIfAborted()
      const count = Buffer.alloc(4)
      count.writeUInt32BE(rows)
      await draft.add('rows', Buffer.concat([count, bytes]))
      done += rows
      onProgress?.({ stage: 'write', done, total })
    })
    written.push({ name, columns, ...entry })
  }
  return written
}

type NamedRow = Record<string, Cell>

/** For the small tables of keys. */
async function readAll(reader: TableReader, table: TableShape): Promise<NamedRow[]> {
  const rows: NamedRow[] = []
  for await (const page of reader.pages(table)) rows.push(...page.map((row) => named(table, row)))
  return rows
}

async function listHeads(reader: TableReader, table: TableShape): Promise<ChainHead[]> {
  const heads: ChainHead[] = []
  for await (const page of reader.pages(table)) {
    for (const row of page) {
      if (heads.length >= maxHeads) return heads
      const { chain_id: chain, sequence, hash } = named(table, row)
      heads.push({ chain: String(chain), sequence: Number(sequence), hash: String(hash) })
    }
  }
  return heads
}

function named(table: TableShape, row: readonly Cell[]): NamedRow {
  return Object.fromEntries(table.columns.map(({ name }, index) => [name, row[index] ?? null]))
}

function requireTable(tables: readonly TableShape[], name: string): TableShape {
  const found = tables.find((table) => table.name === name)
  if (!found) throw new Error(`the table ${name} is missing`)
  return found
}
