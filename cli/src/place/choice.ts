/** Finds the project and the environment for a folder, or creates them. */
import type { Api, ProjectPath } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { visible } from '../output/table.ts'
import { askText, choose, confirm } from '../prompt.ts'
import { createProject, slugOf } from './new-project.ts'

/** An option beside slugs, which have no space. */
const another = 'a new one'

/** Returns its slug. */
export async function chooseProject(
  ctx: Context,
  api: Api,
  ws: string,
  wanted: string | undefined,
  mayCreate: boolean,
): Promise<string> {
  const projects = (await api.project.list({ ws })).flatMap((group) => group.projects)
  const create = async (slug: string) => (await createProject(ctx, api, ws, slug)).slug
  if (wanted !== undefined) {
    const found = projects.find(({ slug, id }) => slug === wanted || id === wanted)
    if (found) return found.slug
    await requireConsent(ctx, `There is no project ${wanted} in the workspace ${ws}.`, mayCreate)
    return create(wanted)
  }
  const hint = '--project SLUG'
  const own = slugOf(ctx.cwd)
  const isThere = projects.some(({ slug }) => slug === own)
  const options = projects.map(({ slug, name }) => ({ value: slug, label: visible(labelOf(name, slug)) }))
  const chosen =
    options.length === 0
      ? another
      : await choose<string>(ctx, {
          message: 'Which project?',
          hint,
          options: [...options, { value: another, label: own && !isThere ? `A new project: ${own}` : 'A new project' }],
          // The Enter key must not put secrets into the project of somebody else.
          initial: own && isThere ? own : another,
        })
  if (chosen !== another) return chosen
  const slug = await askText(ctx, {
    message: 'Name of the new project',
    hint,
    initial: isThere ? '' : (own ?? ''),
    check: (text) =>
      /^[a-z0-9-]{2,48}$/.test(text) ? undefined : 'A name has 2 to 48 small letters, digits and dashes.',
  })
  return create(slug)
}

const labelOf = (name: string, slug: string) => (name === slug ? slug : `${name} (${slug})`)

/** Returns its name. */
export async function chooseEnvironment(
  ctx: Context,
  api: Api,
  path: ProjectPath,
  wanted: string | undefined,
  mayCreate: boolean,
): Promise<string> {
  const environments = await api.environment.list(path)
  if (wanted !== undefined) {
    const found = environments.find(({ name, id }) => name === wanted || id === wanted)
    if (found) return found.name
    await requireConsent(ctx, `The project ${path.prj} has no environment ${wanted}.`, mayCreate)
    await api.environment.create(path, { name: wanted })
    return wanted
  }
  const hint = '--environment NAME'
  if (environments.length === 0) {
    throw new CliError('notFound', `You can see no environment of the project ${path.prj}.`, `${hint} --create`)
  }
  return choose<string>(ctx, {
    message: 'Which environment does this folder use?',
    hint,
    options: environments.map(({ name }) => ({ value: name, label: visible(name) })),
  })
}

/** A slip of the keyboard must not create anything. */
async function requireConsent(ctx: Context, problem: string, isGiven: boolean): Promise<void> {
  if (isGiven) return
  const isWanted =
    ctx.terminal.isInteractive && (await confirm(ctx, { message: `${visible(problem)} Create it?`, hint: '--create' }))
  if (!isWanted) throw new CliError('notFound', problem, 'coffer init --create')
}
