import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { CliError, usageError } from '../../error.ts'
import { confirm } from '../../prompt.ts'
import { writeBatch } from '../../secret/batch.ts'
import {
  explainMissing,
  missingSecrets,
  openProject,
  type Project,
  requireEnvironmentNames,
  requireNames,
} from '../../secret/project.ts'
import { showResults } from '../../secret/result.ts'

export const remove = defineCommand({
  usage: 'KEY…',
  args: [1, 10_000],
  findsPlace: true,
  flags: {
    yes: { type: 'boolean', short: 'y', about: 'Do not ask' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Why; shown in the history' },
    personal: { type: 'boolean', about: 'Only your own value' },
    'all-environments': { type: 'boolean', about: 'The secret with its values in every environment' },
  },
  details: `
Deletes the value in the environment, or in several: -e staging,production. All of it happens, or nothing. Earlier
versions stay: coffer restore KEY@N brings one back.
With --all-environments the whole secret goes to the trash for 30 days.

Examples:
  coffer secrets delete OLD_KEY
  coffer secrets delete OLD_KEY OLDER_KEY -e staging -y -m 'no longer used'
  coffer secrets delete OLD_KEY --all-environments`,
  async run(ctx, { flags, args }) {
    const keys = requireNames(args)
    const isAll = flags['all-environments']
    if (isAll && flags.message !== undefined) throw usageError('--all-environments takes no --message.')
    if (isAll && flags.personal) throw usageError('Give --personal or --all-environments.')
    const environments = isAll ? [] : requireEnvironmentNames(ctx)
    const project = openProject(ctx)
    if (isAll || !flags.yes) await requireAll(project, keys, environments)
    const place = isAll ? 'every environment' : environments.join(', ')
    const what = flags.personal ? 'your own value of ' : ''
    const question = `Delete ${what}${keys.join(', ')} in ${place} of ${project.path.prj}?`
    if (!flags.yes && !(await confirm(ctx, { message: question, hint: '--yes' }))) {
      throw new CliError('cancelled', 'Cancelled.')
    }
    if (isAll) return trash(ctx, project, keys)
    const operations = environments.flatMap((environmentId) =>
      keys.map((key) => ({ op: 'delete' as const, key, environmentId, ...(flags.personal && { isPersonal: true }) })),
    )
    const written = await explainMissing(project, { environments }, () =>
      writeBatch(project, {
        operations,
        ...(flags.message !== undefined && { message: flags.message }),
      }),
    )
    await showResults(ctx, project, written)
  },
})

/** Before the question, and before the first is gone: the trash takes one secret at a time. */
async function requireAll(project: Project, keys: readonly string[], environments: readonly string[]): Promise<void> {
  const isAll = environments.length === 0
  const list = await explainMissing(project, { environments }, () =>
    project.api.secret.list(project.path, { view: 'keys', ...(!isAll && { environmentId: [...environments] }) }),
  )
  const present = new Set(list.map(({ name }) => name))
  const missing = keys.filter((key) => !present.has(key))
  if (missing.length > 0) throw missingSecrets(missing, environments)
}

async function trash(ctx: Context, project: Project, keys: readonly string[]): Promise<void> {
  const deleted: string[] = []
  try {
    for (const key of keys) {
      await project.api.secret.delete({ ...project.path, key })
      deleted.push(key)
    }
  } finally {
    ctx.out.show(
      deleted.map((key) => ({ key, status: 'deleted' })),
      () => ({ columns: ['name', 'status'], rows: deleted.map((key) => [key, 'deleted']) }),
    )
  }
}
