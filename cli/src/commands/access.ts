import { type AccessRow, listAll } from '@coffer/sdk'
import { anywhereFlag, findPlace } from '../access/place.ts'
import { defineCommand } from '../command.ts'
import { CliError, usageError } from '../error.ts'
import { formatCsv } from '../output/csv.ts'
import type { Table } from '../output/table.ts'
import { visible } from '../output/table.ts'
import { openWorkspace, type Workspace } from '../token/token.ts'

const types = ['user', 'service', 'token', 'oidc'] as const

export const access = defineCommand({
  usage: '',
  args: [0, 0],
  findsPlace: true,
  flags: {
    anywhere: anywhereFlag,
    type: { type: 'string', value: 'TYPE', about: 'Only this kind of actor', choices: types },
    format: {
      type: 'string',
      value: 'FORMAT',
      about: 'csv, for a spreadsheet; otherwise a table',
      choices: ['csv', 'table'],
    },
  },
  details: `
Lists everybody who can read an environment, and whether they can also write it or are its admin: people, service
accounts, tokens and identities of outside issuers. A token never has more rights than its owner. Whoever gets nothing
at the moment, such as somebody without the second factor that the policy asks for, is listed with the reason.
For admins of the whole workspace.

Examples:
  coffer access -e production
  coffer access -p shop --type token
  coffer access --anywhere --format csv > access.csv`,
  async run(ctx, { flags }) {
    if (flags.format !== undefined && ctx.flags.json) throw usageError('Give --format or --json.')
    const { project, environment } = findPlace(ctx, flags.anywhere)
    const workspace = openWorkspace(ctx)
    const names = await nameEnvironments(workspace)
    const wanted = environment === undefined ? undefined : requireEnvironment(names, project, environment)
    const type = types.find((one) => one === flags.type)
    const query = { limit: 200, ...(project !== undefined && { project }), ...(type && { type }) }
    const rows: AccessRow[] = []
    for await (const row of listAll(workspace.api.access.list, { ws: workspace.ws }, query)) {
      const environments = row.environments.filter(({ environmentId }) => !wanted || environmentId === wanted)
      if (environments.length > 0 || row.problem !== null || !wanted) rows.push({ ...row, environments })
    }
    if (flags.format === 'csv') await ctx.out.raw(formatCsv(tableOf(rows, names)))
    else ctx.out.show(rows, () => tableOf(rows, names))
  },
})

/** Slug of the project and name of the environment, by the id of the environment. */
type Names = ReadonlyMap<string, { readonly project: string; readonly projectId: string; readonly name: string }>

async function nameEnvironments({ api, ws }: Workspace): Promise<Names> {
  const projects = (await api.project.list({ ws })).flatMap((team) => team.projects)
  return new Map(
    projects.flatMap(({ id, slug, environmentList }) =>
      environmentList.map((one) => [one.id, { project: slug, projectId: id, name: one.name }] as const),
    ),
  )
}

function requireEnvironment(names: Names, project: string | undefined, given: string): string {
  const folded = given.toLowerCase()
  for (const [id, environment] of names) {
    const isHere = environment.project === project || environment.projectId === project?.toLowerCase()
    if (isHere && (id === folded || environment.name.toLowerCase() === folded)) return id
  }
  throw new CliError('notFound', `There is no environment ${visible(`${project}/${given}`)} that you may see.`)
}

function tableOf(rows: readonly AccessRow[], names: Names): Table {
  return {
    columns: ['type', 'name', 'owner', 'environment', 'right', 'problem'],
    rows: rows.flatMap(({ actor, ownerName, problem, environments }) => {
      const who = [actor.type, actor.name, ownerName ?? '']
      if (environments.length === 0) return [[...who, '', 'none', problem ?? '']]
      return environments.map(({ environmentId, right }) => {
        const place = names.get(environmentId)
        return [...who, place ? `${place.project}/${place.name}` : environmentId, right, '']
      })
    }),
    empty: 'Nobody has access.',
  }
}
