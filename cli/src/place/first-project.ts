/** After a login in a folder without a project: creates the first one, so that the next command can be `coffer import`. */
import type { Api, Workspace } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { commandHere } from '../invocation.ts'
import { visible } from '../output/table.ts'
import { confirm } from '../prompt.ts'
import { homeOf } from '../session/login-file.ts'
import { createProject, slugOf } from './new-project.ts'
import { findProjectFile, projectFileName, writeProjectFile } from './project-file.ts'

const environment = 'development'

export async function offerFirstProject(ctx: Context, api: Api, url: string, workspace: Workspace): Promise<void> {
  if (findProjectFile(ctx.cwd)) return
  const ws = workspace.slug
  const groups = await api.project.list({ ws })
  const slug = ctx.cwd === homeOf(ctx.env) ? undefined : slugOf(ctx.cwd)
  const isFirst = groups.every(({ projects }) => projects.length === 0)
  if (!isFirst || !slug || workspace.role === 'member') return next(ctx, 'init')
  const isWanted = await confirm(ctx, {
    message: `The workspace ${visible(workspace.name)} has no project yet. Create the project ${slug} for this folder?`,
    hint: 'coffer init',
    initial: true,
  })
  if (!isWanted) return next(ctx, 'init')
  const project = await createProject(ctx, api, ws, slug)
  writeProjectFile(ctx.cwd, { url, workspace: ws, project: project.slug, environment })
  ctx.out.note(
    `Created the project ${slug}; ${projectFileName} says that this folder uses its environment ${environment}.`,
  )
  next(ctx, 'import .env')
}

/** The command that works where this one was called. */
const next = (ctx: Context, command: string) => ctx.out.note(`next: ${commandHere(ctx)} ${command}`)
