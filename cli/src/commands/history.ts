import { listAll, type Revision, type SecretVersion, type SecretVersionValue } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { usageError } from '../error.ts'
import { formatTime } from '../output/time.ts'
import {
  explainMissing,
  openProject,
  type Project,
  parseCount,
  requireEnvironment,
  requireEnvironmentName,
  requireName,
} from '../secret/project.ts'
import { cellOf } from '../secret/value.ts'

const defaultLimit = '20'

export const history = defineCommand({
  usage: '[KEY]',
  args: [0, 1],
  findsPlace: true,
  flags: {
    limit: { type: 'string', value: 'N', about: `How many, newest first; ${defaultLimit} by default` },
    values: { type: 'boolean', about: 'Show the value of each version of KEY' },
  },
  details: `
Without a KEY: the revisions of the environment. Each write is one revision, with all keys that it changed.
With a KEY: the versions of its value.

Examples:
  coffer history
  coffer history DATABASE_URL --values -e production
  coffer history --limit 500 --json`,
  async run(ctx, { flags, args }) {
    const [key] = args
    const limit = parseCount(flags.limit ?? defaultLimit, '--limit')
    if (flags.values && key === undefined) throw usageError('--values needs a KEY.', 'coffer history KEY --values')
    const environment = requireEnvironmentName(ctx)
    const project = openProject(ctx)
    if (key === undefined) return showRevisions(ctx, project, environment, limit)
    const asked = { environments: [environment], key: requireName(key) }
    const path = { ...project.path, key }
    const query = { environmentId: environment }
    const versions = await explainMissing(project, asked, () =>
      takeNewest(limit, listAll(project.api.secret.listVersions, path, { ...query, limit: pageSize(limit) })),
    )
    if (!flags.values) return ctx.out.show(versions, () => versionTable(ctx, versions, false))
    const withValues: SecretVersionValue[] = []
    for (const { version } of versions) {
      withValues.push(await project.api.secret.readVersion({ ...path, version }, query))
    }
    ctx.out.show(withValues, () => versionTable(ctx, withValues, true))
  },
})

const maxPageSize = 200
const pageSize = (limit: number) => Math.min(limit, maxPageSize)

async function takeNewest<Item>(limit: number, list: AsyncIterable<Item>): Promise<Item[]> {
  const taken: Item[] = []
  for await (const item of list) if (taken.push(item) === limit) break
  return taken
}

async function showRevisions(ctx: Context, project: Project, environment: string, limit: number): Promise<void> {
  const { id } = await requireEnvironment(project, environment)
  const path = { ...project.path, environmentId: id }
  const revisions = await takeNewest(limit, listAll(project.api.secret.listRevisions, path, { limit: pageSize(limit) }))
  ctx.out.show(revisions, () => revisionTable(ctx, revisions))
}

const signs = { created: '+', updated: '~', deleted: '-', renamed: '>' } as const

const revisionTable = (ctx: Context, revisions: readonly Revision[]) => ({
  columns: ['revision', 'time', 'by', 'changes', 'message'],
  rows: revisions.map(({ revision, createdAt, createdBy, changes, message }) => {
    const list = changes.map(({ key, action, from }) => `${signs[action]}${from ? `${from}>` : ''}${key}`).join(' ')
    return [revision, formatTime(ctx.terminal, createdAt), createdBy, cellOf(ctx, list), cellOf(ctx, message)]
  }),
  empty: 'Nothing has been written here yet.',
})

const versionTable = (ctx: Context, versions: readonly (SecretVersion & { value?: string })[], hasValues: boolean) => ({
  columns: ['version', 'time', 'by', 'state', ...(hasValues ? ['value'] : []), 'message'],
  rows: versions.map(({ version, createdAt, createdBy, deleted, message, value = '' }) => [
    version,
    formatTime(ctx.terminal, createdAt),
    createdBy,
    deleted ? 'deleted' : 'written',
    ...(hasValues ? [cellOf(ctx, value)] : []),
    cellOf(ctx, message),
  ]),
  empty: 'There are no versions.',
})
