/** Creates projects, named after the folder unless somebody says otherwise. */
import { basename } from 'node:path'
import type { Api, Project } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { visible } from '../output/table.ts'
import { choose } from '../prompt.ts'

/** A slug from the name of the folder; undefined if nothing of the name can be part of one. */
export function slugOf(folder: string): string | undefined {
  const letters = basename(folder)
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
    .replace(/^-+|-+$/g, '')
  return letters.length >= 2 ? letters : undefined
}

/** In the only team, or in the one that the person chooses. */
export async function createProject(ctx: Context, api: Api, ws: string, slug: string): Promise<Project> {
  const teams = await api.team.list({ ws })
  const [first] = teams
  if (!first) throw new CliError('forbidden', 'You are in no team that could own a project.')
  const teamId =
    teams.length === 1
      ? first.id
      : await choose(ctx, {
          message: 'Which team owns the project?',
          hint: 'create the project in the dashboard',
          options: teams.map(({ id, name }) => ({ value: id, label: visible(name) })),
        })
  return api.project.create({ ws }, { name: slug, slug, teamId })
}
