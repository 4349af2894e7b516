/**
 * The least work of the two bulk rows, in this process: the encryption and MACs of a plan, and the encryption and the
 * rows of an import, without HTTP, rights, checks or an audit entry.
 */
import { fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
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

/** Opens the values, and computes the MAC of each value and of its ledger entry. */
export function createLeastPlan(): () => void {
  const stored = Array.from({ length: count }, (_, index) => {
    const [secretId, value] = [newId(), Buffer.from(`value-${index}-${'x'.repeat(24)}`)]
    return { name: `KEY_${index}`, secretId, sealed: seal(key, 1, dataOf(projectId, secretId), value) }
  })
  return () => {
    for (const { name, secretId, sealed } of stored) {
      const value = open(key, dataOf(projectId, secretId), sealed).toString('utf8')
      macOf(macKey, secretId, macOf(macKey, name, value))
    }
  }
}

/** Seals the values, inserts the secrets, values and versions into the tables of the service, and waits for the disk. */
export function createLeastImport(): () => void {
  const path = join(makeFolder(), 'least.db')
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  database.exec(`pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 0;
    pragma secure_delete = on; pragma temp_store = memory`)
  for (const { statement } of steps) {
    database.exec(statement.replaceAll('$serial', 'integer primary key autoincrement'))
  }
  const log = openSync(`${path}-wal`, 'r')
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
  const projects = Array.from({ length: projectCount }, () => newId())
  let run = 0
  return () => {
    const project = projects[++run % projectCount] ?? ''
    const at = Date.now()
    database.exec('begin immediate')
    for (let index = 0; index < count; index++) {
      const [id, name] = [newId(), `KEY_${index}_${run}`]
      const sealed = seal(key, 1, dataOf(project, id), Buffer.from(`value ${index}`))
      addSecret.run(id, workspaceId, project, name, at, at)
      putValue.run(environmentId, id, workspaceId, sealed, at)
      addVersion.run(environmentId, id, workspaceId, run, name, sealed, at)
    }
    database.exec('commit')
    fdatasyncSync(log)
    database.exec('pragma wal_checkpoint(passive)')
  }
}
