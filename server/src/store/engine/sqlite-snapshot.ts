/**
 * Snapshots of the SQLite file from before a migration, to go back to the version of before:
 * `coffer.db.before-step-49` has the first 48 steps and all data of that moment. A killed snapshot is a `.part` file.
 */
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statfsSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'
import type { MigrationSnapshots } from './sql.ts'
import { asFailure, busyTimeoutMs, execute } from './sqlite-connection.ts'

const keptSnapshots = 2
/** For the steps of the migration itself and their log. */
const migrationBytes = 16 * 1024 ** 2
const mebibyte = 1024 ** 2
const sqliteFull = 13

type Snapshot = { readonly path: string; readonly steps: number; readonly madeAt: number }

/** SQLite's `user_version` is the first step of a migration that has its snapshot; a killed one continues without another. */
export function createMigrationSnapshots(path: string, writer: DatabaseSync): MigrationSnapshots {
  return {
    make: async (step) => {
      const holder = new DatabaseSync(path, { timeout: busyTimeoutMs })
      try {
        // Holds off other writers, and another process that starts at the same moment.
        execute(holder, 'begin immediate')
        // Another process may have migrated the store since the caller looked: a copy would replace its snapshot.
        if (appliedSteps(holder) !== step - 1 || hasSnapshot(holder, step) || !hasKeys(holder)) return undefined
        const copy = `${path}.before-step-${step}`
        copyTo(copy, path, writer)
        execute(holder, `pragma user_version = ${step}; commit`)
        removeOld(path, copy)
        return copy
      } finally {
        holder.close()
      }
    },
    finish: async () => {
      if (firstStepOf(writer) !== 0) execute(writer, 'pragma user_version = 0')
    },
    find: (maxSteps) => {
      const [newest] = listSnapshots(path)
        .filter(({ steps }) => steps <= maxSteps)
        .toSorted((one, other) => other.steps - one.steps)
      return newest && { path: newest.path, leftAt: appliedAt(writer, newest.steps + 1) ?? newest.madeAt }
    },
  }
}

function appliedAt(connection: DatabaseSync, step: number): number | undefined {
  const row = connection.prepare('select applied_at from schema_step where step = ?').get(step)
  return row && Number(row.applied_at)
}

const firstStepOf = (connection: DatabaseSync) => Number(connection.prepare('pragma user_version').get()?.user_version)

/** Not before its first step is applied: until then the version of before could still start and write. */
function hasSnapshot(connection: DatabaseSync, step: number): boolean {
  const first = firstStepOf(connection)
  return first !== 0 && first < step
}

function appliedSteps(connection: DatabaseSync): number {
  return Number(connection.prepare('select coalesce(max(step), 0) as step from schema_step').get()?.step)
}

/** A store that never started has nothing to go back to. */
function hasKeys(connection: DatabaseSync): boolean {
  const table = connection.prepare(`select 1 from sqlite_schema where type = 'table' and name = 'root_key'`).get()
  return table !== undefined && connection.prepare('select 1 from root_key limit 1').get() !== undefined
}

function copyTo(copy: string, path: string, writer: DatabaseSync): void {
  const part = `${copy}.part`
  removeParts(path)
  requireRoom(path, writer)
  try {
    // An empty file is accepted as the target; this one is private before it holds anything.
    closeSync(openSync(part, 'wx', 0o600))
    writer.prepare('vacuum into ?').run(part)
    sync(part)
    renameSync(part, copy)
    sync(dirname(copy))
  } catch (error) {
    rmSync(part, { force: true })
    const isFull = error instanceof Error && 'errcode' in error && error.errcode === sqliteFull
    throw isFull || codeOf(error) === 'ENOSPC' ? noRoom(path, sizeOf(writer)) : asFailure(error)
  }
}

function requireRoom(path: string, writer: DatabaseSync): void {
  const { bavail, bsize } = statfsSync(dirname(path))
  const neededBytes = sizeOf(writer) + migrationBytes
  if (bavail * bsize < neededBytes) throw noRoom(path, neededBytes)
}

function noRoom(path: string, neededBytes: number): Failure {
  return new Failure(
    'internal',
    `The upgrade first copies the store, and its disk has no room for that: make ${Math.ceil(neededBytes / mebibyte)} MiB free in ${dirname(path)}. Older copies there (${basename(path)}.before-…) may be moved elsewhere.`,
  )
}

function sizeOf(connection: DatabaseSync): number {
  const { bytes } =
    connection.prepare('select page_count * page_size as bytes from pragma_page_count, pragma_page_size').get() ?? {}
  return Number(bytes)
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  fsyncSync(file)
  closeSync(file)
}

function listSnapshots(path: string): Snapshot[] {
  const [folder, prefix] = [dirname(path), `${basename(path)}.before-step-`]
  return readdirSync(folder).flatMap((name) => {
    const step = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    if (!/^[1-9]\d*$/.test(step)) return []
    const found = join(folder, name)
    return [{ path: found, steps: Number(step) - 1, madeAt: statSync(found).mtimeMs }]
  })
}

/** The times of files may be wrong, so the one just made is kept in any case. */
function removeOld(path: string, made: string): void {
  const newestFirst = listSnapshots(path)
    .filter((snapshot) => snapshot.path !== made)
    .toSorted((one, other) => other.madeAt - one.madeAt || other.steps - one.steps)
  for (const { path: old } of newestFirst.slice(keptSnapshots - 1)) rmSync(old, { force: true })
}

function removeParts(path: string): void {
  const prefix = `${basename(path)}.before-step-`
  for (const name of readdirSync(dirname(path))) {
    if (name.startsWith(prefix) && name.endsWith('.part')) rmSync(join(dirname(path), name), { force: true })
  }
}
