/** The place that a question about access is about. */
import type { Context } from '../context.ts'
import { usageError } from '../error.ts'
import { readSettings } from '../place/place.ts'

export const anywhereFlag = {
  type: 'boolean',
  about: 'In the whole workspace, not only in the project of this folder',
} as const

type Asked = { readonly project?: string; readonly environment?: string }

/** An environment of the folder counts only in the project of the folder. */
export function findPlace(ctx: Context, isAnywhere: boolean): Asked {
  const { flags } = ctx
  if (isAnywhere) {
    if (flags.project !== undefined || flags.environment !== undefined) {
      throw usageError('--anywhere stands alone: it takes no --project and no --environment.')
    }
    return {}
  }
  const { find } = readSettings(ctx)
  const project = find('project')?.value
  const environment = flags.project === undefined ? find('environment')?.value : flags.environment
  if (project === undefined && flags.environment !== undefined) {
    throw usageError('--environment needs a project.', '--project SLUG')
  }
  return {
    ...(project !== undefined && { project }),
    ...(project !== undefined && environment !== undefined && { environment }),
  }
}
