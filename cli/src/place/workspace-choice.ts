/** The workspace to work in. */
import type { Api, Me, Workspace } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { visible } from '../output/table.ts'
import { choose } from '../prompt.ts'

/** The named one, the only one, the preferred one, or the one that the person chooses. Undefined if there is none. */
export async function chooseWorkspace(
  ctx: Context,
  api: Api,
  wanted: string | undefined,
  me?: Pick<Me, 'preferences'>,
): Promise<Workspace | undefined> {
  const workspaces = await api.workspace.list()
  if (wanted !== undefined) return findWorkspace(workspaces, wanted)
  if (workspaces.length <= 1) return workspaces[0]
  const preferred = workspaces.find(({ id }) => id === me?.preferences.defaultWorkspace)
  if (preferred) return preferred
  const chosen = await choose(ctx, {
    message: 'Which workspace?',
    hint: '--workspace SLUG',
    options: workspaces.map(({ slug, name }) => ({ value: slug, label: visible(`${name} (${slug})`) })),
  })
  return workspaces.find(({ slug }) => slug === chosen)
}

/** The service answers "Not found." whatever is missing: says so if it is the workspace. */
export async function requireWorkspace(api: Api, wanted: string): Promise<void> {
  findWorkspace(await api.workspace.list(), wanted)
}

function findWorkspace(workspaces: readonly Workspace[], wanted: string): Workspace {
  const found = workspaces.find(({ slug, id }) => slug === wanted || id === wanted)
  if (found) return found
  const slugs = workspaces.slice(0, 10).map(({ slug }) => slug)
  const hint = slugs.length > 0 ? `one of: ${slugs.join(', ')}` : undefined
  throw new CliError('notFound', `There is no workspace ${wanted}, or you are not in it.`, hint)
}
