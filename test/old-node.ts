/**
 * A store and a node of the version before several grants, service accounts and policies. The columns that its MACs cover
 * are written down here once more, so that this does not change with the code.
 */
import { cp } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Role, Scope } from '@coffer/contract/field'
import { type MacField, signRow } from '../server/src/crypto/row-mac.ts'
import type { Engine } from '../server/src/store/engine/sql.ts'
import type { Keys } from '../server/src/store/key/key.ts'
import { migrate, steps } from '../server/src/store/migrate.ts'
import { createDatabase, type Database, engine as kind, type TestService } from './harness.ts'
import { openRaw, type RawDatabase, type RawRow } from './raw-database.ts'
import { openEngine } from './store.ts'

const signed = {
  member: ['id', 'workspace_id', 'user_id', 'role', 'is_owner', 'scope', 'created_at'],
  invite: ['id', 'workspace_id', 'email', 'role', 'scope', 'hash', 'created_at', 'expires_at', 'declined_at'],
  token: [
    ...['id', 'workspace_id', 'created_by', 'type', 'hash', 'previous_hash', 'previous_until', 'generation'],
    ...['permission', 'scope', 'allowed_ips', 'created_at', 'expires_at', 'revoked_at'],
  ],
  share: [
    ...['id', 'workspace_id', 'project_id', 'created_by', 'kind', 'label', 'environment_ids', 'has_password'],
    ...['size_bytes', 'max_views', 'max_failures', 'created_at', 'expires_at', 'token_hash', 'password_hash'],
    ...['link_proof_hash', 'pass_proof_hash'],
  ],
} as const
export type SignedTable = keyof typeof signed
export const signedTables: readonly SignedTable[] = ['member', 'invite', 'token', 'share']

function fieldsOf(table: SignedTable, row: RawRow): MacField[] {
  const fields = signed[table].map((column) => row[column] ?? null)
  const mailedHash = row.mailed_hash ?? null
  return table === 'invite' && mailedHash !== null ? [...fields, mailedHash] : fields
}

/** What the old node reads: rows whose MAC it finds wrong grant nothing and are left out. */
export async function readAsOldNode(raw: RawDatabase, keys: Keys, table: SignedTable): Promise<RawRow[]> {
  const seen: RawRow[] = []
  const columns = [...signed[table], ...(table === 'invite' ? ['mailed_hash'] : []), 'mac', 'mac_root_id']
  for (const row of await raw.query(`select ${columns.join(', ')} from ${table} order by id`)) {
    const { mac, mac_root_id: macRootId } = row
    if (!(mac instanceof Uint8Array) || typeof macRootId !== 'string') continue
    if (await keys.isGenuine(table, fieldsOf(table, row), { mac, macRootId })) seen.push(row)
  }
  return seen
}

/** The old node's change of a role and scope, or a new membership of the same person. */
export async function writeMemberAsOldNode(
  raw: RawDatabase,
  keys: Keys,
  member: RawRow,
  change: { readonly role: Role; readonly scope: Scope },
): Promise<void> {
  const row: RawRow = { ...member, role: change.role, scope: JSON.stringify(change.scope) }
  const { mac, macRootId } = signRow(keys.keyring.active, 'member', fieldsOf('member', row))
  const written: RawRow = { ...row, mac, mac_root_id: macRootId }
  const known = ['role', 'scope', 'mac', 'mac_root_id']
  const values = known.map((column) => written[column] ?? null)
  const set = known.map((column) => `${column} = ?`).join(', ')
  const found = await raw.query(`update member set ${set} where id = ? returning id`, [...values, row.id ?? null])
  if (found.length > 0) return
  const all = [...signed.member, 'updated_at', 'mac', 'mac_root_id']
  await raw.query(
    `insert into member (${all.join(', ')}) values (${all.map(() => '?').join(', ')})`,
    all.map((column) => (column === 'updated_at' ? (row.created_at ?? 0) : (written[column] ?? null))),
  )
}

/** Each node has its own notes about these. */
const notCopied = new Set(['schema_step', 'schema_lock', 'change', 'sqlite_sequence'])
const stepsBefore = steps.findIndex(({ name }) => name === 'access-1')

export type OldStore = { readonly database: Database; readonly engine: Engine; readonly raw: RawDatabase }

/** A store with the old schema, and the rows and the master key of the service. */
export async function createOldStore(service: TestService): Promise<OldStore> {
  const database = await createDatabase()
  const isKept = (path: string) => !basename(path).startsWith('coffer.db')
  await cp(service.dataDir, database.dataDir, { recursive: true, filter: isKept })
  const engine = openEngine(database.settings)
  await engine.migratedSteps()
  await applySteps(engine, 1, stepsBefore)
  const [from, raw] = [await openRaw(service), await openRaw(database)]
  for (const table of (await raw.tables()).filter((name) => !notCopied.has(name))) {
    const columns = await columnsOf(raw, table)
    for (const row of await from.query(`select ${columns.join(', ')} from ${table}`)) {
      const slots = columns.map(() => '?').join(', ')
      await raw.query(`insert into ${table} (${columns.join(', ')}) values (${slots})`, Object.values(row))
    }
  }
  await from.close()
  return { database, engine, raw }
}

/** The state before `upgrade finish`, in which a node of the version before may still write rows. */
export async function unfinishUpgrade({ app }: TestService): Promise<void> {
  const { engine, keys, snapshots } = app.services
  await engine.transaction('test', ({ db }) => keys.raiseLevel(db, 0))
  await keys.reload()
  snapshots.clear()
}

async function columnsOf(raw: RawDatabase, table: string): Promise<string[]> {
  const rows =
    kind === 'sqlite'
      ? await raw.query('select name from pragma_table_info(?)', [table])
      : await raw.query('select column_name as name from information_schema.columns where table_name = ?', [table])
  return rows.map(({ name }) => `"${name}"`)
}

async function applySteps(engine: Engine, first: number, last: number): Promise<void> {
  for (let step = first; step <= last; step++) {
    const next = steps[step - 1]
    if (next) await engine.migrateStep(step, next.name, next.statement, 1)
  }
}

/** Brings the store up to date, and calls back after every step. */
export async function upgrade({ engine }: OldStore, afterStep: () => Promise<void>): Promise<void> {
  for (let step = stepsBefore + 1; step <= steps.length; step++) {
    await applySteps(engine, step, step)
    await afterStep()
  }
  if ((await migrate(engine, 1)) !== 0) throw new Error('a step is left')
  await engine.close()
}
