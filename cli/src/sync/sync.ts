/** Syncs of the project: finding one by its name, and their tables. */
import type { Sync, SyncRun } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { type Table, visible } from '../output/table.ts'
import { formatTime } from '../output/time.ts'
import { explainMissing, type Project } from '../secret/project.ts'
import { environmentNames } from '../secret/result.ts'

export const listSyncs = (project: Project): Promise<Sync[]> =>
  explainMissing(project, { environments: [] }, () => project.api.sync.list(project.path))

/** By its id or its name. */
export async function requireSync(project: Project, given: string): Promise<Sync> {
  const syncs = await listSyncs(project)
  const [found, another] = syncs.filter(({ id, name }) => id === given.toLowerCase() || name === given)
  if (!found) {
    const names = syncs.slice(0, 20).map(({ name }) => name)
    const hint = names.length > 0 ? `one of: ${visible(names.join(', '))}` : undefined
    throw new CliError('notFound', `There is no sync ${visible(given)} in the project ${project.path.prj}.`, hint)
  }
  if (another) throw usageError(`Several syncs are called ${visible(given)}: name one by its id.`, 'coffer sync status')
  return found
}

export async function syncTable(ctx: Context, project: Project, syncs: readonly Sync[]): Promise<Table> {
  const names = syncs.length === 0 ? new Map<string, string>() : await environmentNames(project)
  return {
    columns: ['name', 'provider', 'environment', 'target', 'state', 'last run', 'problem'],
    rows: syncs.map(({ name, provider, environmentId, target, state, lastRunAt, lastError }) => [
      name,
      provider,
      environmentId === null ? '' : (names.get(environmentId) ?? environmentId),
      target ?? '',
      state,
      lastRunAt === null ? 'never' : formatTime(ctx.terminal, lastRunAt),
      lastError ?? '',
    ]),
    empty: 'There are no syncs in this project.',
  }
}

export const runTable = (ctx: Context, runs: readonly SyncRun[]): Table => ({
  columns: ['started', 'trigger', 'state', 'created', 'updated', 'deleted', 'conflicts', 'failed', 'problem'],
  rows: runs.map(({ startedAt, trigger, state, counts, error }) => [
    formatTime(ctx.terminal, startedAt),
    trigger,
    state,
    counts.created,
    counts.updated,
    counts.deleted,
    counts.conflicts,
    counts.failed,
    error ?? '',
  ]),
  empty: 'It has not run yet.',
})
