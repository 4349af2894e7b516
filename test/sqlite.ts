/** A database with the schema, made once per test run: copying it is much faster than migrating. */
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { openSqlite } from '../server/src/store/engine/sqlite.ts'
import { migrate } from '../server/src/store/migrate.ts'
import { provideDatabaseFolder } from './memory-disk.ts'

declare module 'vitest' {
  interface ProvidedContext {
    sqliteTemplate: string
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { folder, remove } = await provideDatabaseFolder(project)
  const path = join(folder, 'template.db')
  const engine = openSqlite(path)
  await migrate(engine, Date.now())
  await engine.close()
  project.provide('sqliteTemplate', path)
  return remove
}
