/** Names of the tables of the store, taken from the migrations, so that a backup forgets none. */
import { steps } from './migrate.ts'

/**
 * Not in backups: `change` tells running nodes which caches are stale, and no node has any after a restore; `backup` is
 * the record of the backups that this installation has made; `lease` says which node is doing a job right now, `node`
 * which nodes there are.
 */
const ownOfInstallation: ReadonlySet<string> = new Set(['change', 'backup', 'lease', 'node'])

/** Tables after the first `applied` migration steps, in alphabetical order. */
export function tableNames(applied: number): string[] {
  const names = new Set<string>()
  for (const { statement } of steps.slice(0, applied)) {
    for (const [, created, dropped, from, to] of statement.matchAll(tableChange)) {
      if (created !== undefined) names.add(created)
      if (dropped !== undefined) names.delete(dropped)
      if (from !== undefined && to !== undefined && names.delete(from)) names.add(to)
    }
  }
  return [...names].sort()
}

/** Tables whose rows are in a backup. */
export function backedUpNames(applied: number): string[] {
  return tableNames(applied).filter((name) => !ownOfInstallation.has(name))
}

const tableChange = /\bcreate table (\w+)|\bdrop table (\w+)|\balter table (\w+) rename to (\w+)/g
