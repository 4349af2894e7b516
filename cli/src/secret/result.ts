/** The outcome of a write: names and versions, never values. */
import type { WriteResult } from '@coffer/sdk'
import type { Context } from '../context.ts'
import type { Table } from '../output/table.ts'
import { listEnvironments, type Project } from './project.ts'

type Written = { readonly results: readonly WriteResult[] }

export async function showResults(ctx: Context, project: Project, written: Written): Promise<void> {
  const names = ctx.flags.json ? new Map<string, string>() : await environmentNames(project)
  ctx.out.show(written, () => resultTable(written.results, names))
}

export async function environmentNames(project: Project): Promise<Map<string, string>> {
  return new Map((await listEnvironments(project)).map(({ id, name }) => [id, name]))
}

const resultTable = (results: readonly WriteResult[], names: ReadonlyMap<string, string>): Table => ({
  columns: ['name', 'environment', 'status', 'version'],
  rows: results.map(({ key, environmentId, status, version, isPersonal }) => [
    key,
    names.get(environmentId) ?? environmentId,
    status,
    isPersonal ? 'personal' : version,
  ]),
  empty: 'Nothing has changed.',
})

/** Statuses of results that change nothing. */
export const isChange = ({ status }: WriteResult): boolean => status !== 'unchanged' && status !== 'skipped'

/** What a plan would do, for a person who is asked, such as `created  DATABASE_URL`. */
export function describePlan(results: readonly WriteResult[], verbs: Readonly<Record<string, string>>): string[] {
  return results.filter(isChange).map(({ key, status }) => `  ${(verbs[status] ?? status).padEnd(8)} ${key}`)
}
