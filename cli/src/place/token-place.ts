/** The place of a token: its workspace, and the project and environment if its scope is one. */
import type { Api, ConnectOptions } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { readMe } from '../session/me.ts'
import { readSettings } from './place.ts'

/** Asks the service only where a token is used and nothing names a project or an environment, as `coffer run` does. */
export async function locate(ctx: Context, options: Partial<ConnectOptions> = {}): Promise<Context> {
  const { find, file } = readSettings(ctx)
  const hasToken = ctx.env.COFFER_TOKEN || ctx.env.COFFER_TOKEN_FILE
  const isNamed = find('project') !== undefined || find('environment') !== undefined || file?.content.sources
  if (!hasToken || isNamed || !find('url')) return ctx
  const api = connect(ctx, options)
  const [workspace, another] = await api.workspace.list()
  if (!workspace || another) return ctx
  return { ...ctx, tokenPlace: { workspace: workspace.slug, ...(await findProject(api, workspace.slug)) } }
}

/** By slug and name, from the ids of the scope. */
async function findProject(api: Api, ws: string): Promise<{ project?: string; environment?: string }> {
  const { all, teams, projects, environments } = (await readMe(api)).credential.scope
  if (all || teams.length > 0 || projects.length + environments.length !== 1) return {}
  // The list holds what the token reaches.
  const [reached] = (await api.project.list({ ws })).flatMap((group) => group.projects)
  if (!reached) return {}
  if (projects.length === 1) return { project: reached.slug }
  const [environment] = await api.environment.list({ ws, prj: reached.slug })
  return { project: reached.slug, ...(environment && { environment: environment.name }) }
}
