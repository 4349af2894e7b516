import { ApiError, type Mode } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import { CliError, usageError } from '../error.ts'
import { confirm } from '../prompt.ts'
import { explainMissing, openProject, requireEnvironment, requireNames, splitList } from '../secret/project.ts'
import { describePlan, isChange, showResults } from '../secret/result.ts'

export const promote = defineCommand({
  usage: 'FROM TO',
  args: [2, 2],
  findsPlace: true,
  flags: {
    keys: { type: 'string', value: 'KEY,KEY', about: 'Only these secrets; all of FROM by default' },
    mode: {
      type: 'string',
      value: 'MODE',
      about: 'If TO has a value: refuse, replace it (default) or leave it',
      choices: ['create', 'upsert', 'skip'],
    },
    'dry-run': { type: 'boolean', about: 'Show the plan and its digest, and change nothing' },
    'if-diff': { type: 'string', value: 'DIGEST', about: 'Only if the plan still is the one with this digest' },
    yes: { type: 'boolean', short: 'y', about: 'Do not ask' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Why; shown in the history' },
  },
  details: `
Copies values from one environment to another; deletes nothing, and copies references as references. The plan is shown
first. If either environment changes before you agree, nothing is copied (exit code 6).
--dry-run --json prints the digest as "diff": give it to --if-diff, for example after a review.

Examples:
  coffer promote staging production --dry-run
  coffer promote staging production --keys HOST,PORT -m 'release 7'
  coffer promote staging production --if-diff DIGEST -y`,
  async run(ctx, { flags, args }) {
    const [from = '', to = ''] = args
    const keys = flags.keys === undefined ? undefined : requireNames(splitList(flags.keys, '--keys'))
    const project = openProject(ctx)
    const target = await requireEnvironment(project, to)
    const path = { ...project.path, environmentId: target.id }
    const body = {
      from,
      ...(keys && { keys }),
      // The parser accepts only these choices.
      ...(flags.mode !== undefined && { mode: flags.mode as Mode }),
      ...(flags.message !== undefined && { message: flags.message }),
    }
    const send = (guard: { readonly dryRun?: boolean; readonly ifDiff?: string }) =>
      explainMissing(project, { environments: [from] }, () => project.api.secret.promote(path, { ...body, ...guard }))
    const guard = flags['if-diff'] === undefined ? {} : { ifDiff: flags['if-diff'] }
    const plan = await send({ ...guard, dryRun: true }).catch(nameMissingKeys)
    if (flags['dry-run']) {
      await showResults(ctx, project, plan)
      return ctx.out.note(`Nothing was changed. The digest of this plan: ${plan.diff}`)
    }
    if (!plan.results.some(isChange)) {
      ctx.out.note('Nothing to promote.')
      return showResults(ctx, project, plan)
    }
    const changes = describePlan(plan.results, { created: 'create', updated: 'update' })
    ctx.out.note([`${from} to ${target.name} of ${project.path.prj}:`, ...changes].join('\n'))
    const question = `Promote ${changes.length} ${changes.length === 1 ? 'secret' : 'secrets'} to ${target.name}?`
    if (!flags.yes && !(await confirm(ctx, { message: question, hint: '--yes, or --dry-run' }))) {
      throw new CliError('cancelled', 'Cancelled.')
    }
    await showResults(ctx, project, await send({ ifDiff: plan.diff }))
  },
})

/** The service answers 400 for keys that FROM does not have, which is a missing secret here. */
function nameMissingKeys(error: unknown): never {
  if (!(error instanceof ApiError && error.status === 400)) throw error
  const [, about] = /^keys: (.*is not in.*)$/.exec(error.message) ?? []
  if (about !== undefined) throw new CliError('notFound', about, 'coffer secrets list')
  throw /^from: /.test(error.message) ? usageError('FROM and TO must be two environments.') : error
}
