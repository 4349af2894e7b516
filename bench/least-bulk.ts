/**
 * The least work of the two bulk rows, in this process: encryption, MACs and the rows in SQLite, without HTTP, rights,
 * checks or an audit entry.
 */
import { fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { asKey, associatedData, newKey, open, seal } from '../server/src/crypto/envelope.ts'
import { newId } from '../server/src/crypto/id.ts'
import { macOf } from '../server/src/domain/sync/mac.ts'
import { steps } from '../server/src/store/migrate.ts'
import { makeFolder } from './scratch.ts'

const count = 1_000
const projectCount = 20
const [key, macKey] = [asKey(newKey()), asKey(newKey())]
const [workspaceId, projectId, environmentId] = [newId(), newId(), newId()]

const dataOf = (project: string, secretId: string) =>
  associatedData('secret-value', workspaceId, project, environmentId, secretId, 1, 'value', 1)

/** Reads names, values and ledger, opens the values, and compares the MACs of each with the ledger and the target. */
export function createLeastPlan(): () => void {
  const { database } = openTables()
  const syncId = newId()
  const target: Record<string, string> = {}
  database.exec('begin')
  const add = secretAdder(database)
  const addEntry = database.prepare(`
    insert into sync_ledger (sync_id, name, value_mac, origin, status, updated_at) values (?, ?, ?, 'created', 'synced', 0)`)
  for (let index = 0; index < count; index++) {
    const [name, value] = [`KEY_${index}`, `value-${index}-${'x'.repeat(24)}`]
    add(projectId, name, value, 0, 1)
    const valueMac = macOf(macKey, name, value)
    addEntry.run(syncId, name, `${valueMac}.${macOf(macKey, syncId, valueMac)}`)
    target[name] = value
  }
  database.exec('commit')
  const answer = JSON.stringify({ data: { data: target } })
  const listNames = reader(database, 'select id, name from secret where project_id = ?')
  const listValues = reader(database, 'select secret_id, sealed from secret_value where environment_id = ?')
  const listLedger = reader(database, 'select name, value_mac from sync_ledger where sync_id = ?')
  return () => {
    const names = new Map(listNames(projectId).map((row) => [row[0], String(row[1])]))
    const ledger = new Map(listLedger(syncId).map((row) => [row[0], row[1]]))
    const seen = JSON.parse(answer).data.data
    let unchanged = 0
    for (const row of listValues(environmentId)) {
      const name = names.get(row[0]) ?? ''
      const value = open(key, dataOf(projectId, String(row[0])), bytesOf(row[1])).toString('utf8')
      const valueMac = macOf(macKey, name, value)
      if (ledger.get(name) === `${valueMac}.${macOf(macKey, syncId, valueMac)}` && seen[name] === value) unchanged++
    }
    if (unchanged !== count) throw new Error('the least plan found a difference')
  }
}

/** Seals the values, inserts the secrets, values and versions into the tables of the service, and waits for the disk. */
export function createLeastImport(): () => void {
  const { database, path } = openTables()
  const log = openSync(`${path}-wal`, 'r')
  const add = secretAdder(database)
  const projects = Array.from({ length: projectCount }, () => newId())
  let run = 0
  return () => {
    const project = projects[++run % projectCount] ?? ''
    const at = Date.now()
    database.exec('begin immediate')
    for (let index = 0; index < count; index++) add(project, `KEY_${index}_${run}`, `value ${index}`, at, run)
    database.exec('commit')
    fdatasyncSync(log)
    database.exec('pragma wal_checkpoint(passive)')
  }
}

function openTables() {
  const path = join(makeFolder(), 'least.db')
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  database.exec(`pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 0;
    pragma secure_delete = on; pragma temp_store = memory`)
  for (const { statement } of steps) {
    database.exec(statement.replaceAll('$serial', 'integer primary key autoincrement'))
  }
  return { database, path }
}

function secretAdder(database: DatabaseSync) {
  const addSecret = database.prepare(`
    insert into secret (id, workspace_id, project_id, name, type, data_type, note, created_at, updated_at)
    values (?, ?, ?, ?, 'runtime', 'text', '', ?, ?)`)
  const putValue = database.prepare(`
    insert into secret_value (environment_id, secret_id, owner_id, workspace_id, version, sealed, authors, updated_at)
    values (?, ?, '', ?, 1, ?, '', ?)`)
  const addVersion = database.prepare(`
    insert into secret_version (environment_id, secret_id, version, workspace_id, revision, name, action, sealed,
      authors, created_at, created_by, message)
    values (?, ?, 1, ?, ?, ?, 'created', ?, '', ?, 'The owner', '')`)
  return (project: string, name: string, value: string, at: number, revision: number) => {
    const id = newId()
    const sealed = seal(key, 1, dataOf(project, id), Buffer.from(value))
    addSecret.run(id, workspaceId, project, name, at, at)
    putValue.run(environmentId, id, workspaceId, sealed, at)
    addVersion.run(environmentId, id, workspaceId, revision, name, sealed, at)
  }
}

/** Rows as arrays: Node's objects are slow to read. */
function reader(database: DatabaseSync, query: string) {
  const statement = database.prepare(query)
  statement.setReturnArrays(true)
  return (id: string) => statement.all(id)
}

const bytesOf = (cell: SQLOutputValue | undefined) => (cell instanceof Uint8Array ? cell : new Uint8Array())
