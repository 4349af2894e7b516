import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { confirm } from '../prompt.ts'
import {
  explainMissing,
  openProject,
  type Project,
  parseCount,
  requireEnvironment,
  requireEnvironmentName,
  requireName,
} from '../secret/project.ts'
import { describePlan, isChange, showResults } from '../secret/result.ts'

export const restore = defineCommand({
  usage: 'KEY@N | --revision R',
  args: [0, 1],
  findsPlace: true,
  flags: {
    revision: { type: 'string', value: 'R', about: 'Bring all secrets back to this revision of the environment' },
    'dry-run': { type: 'boolean', about: 'Show what would happen, and change nothing' },
    yes: { type: 'boolean', short: 'y', about: 'Do not ask' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Why; shown in the history. Only with --revision' },
  },
  details: `
Makes an earlier value, or the state of a whole environment, current again, as a new version and a new revision: nothing
is lost. coffer history shows versions and revisions.

Examples:
  coffer restore DATABASE_URL@3
  coffer restore --revision 12 --dry-run
  coffer restore --revision 12 -e production -m 'back to before the release'`,
  async run(ctx, { flags, args }) {
    const [target] = args
    if ((target === undefined) === (flags.revision === undefined)) {
      throw usageError('Give KEY@N or --revision R.', 'coffer restore KEY@N')
    }
    const options = { isDry: flags['dry-run'], isAgreed: flags.yes, message: flags.message }
    const environment = requireEnvironmentName(ctx)
    if (target !== undefined) {
      if (flags.message !== undefined) throw usageError('--message needs --revision.')
      const [, key = '', version = ''] = /^(.*)@(\d+)$/.exec(target) ?? []
      if (version === '') throw usageError('The version is missing.', 'coffer restore KEY@N')
      const found = { key: requireName(key), version: parseCount(version, 'N') }
      return restoreVersion(ctx, openProject(ctx), environment, found, options)
    }
    const revision = parseCount(flags.revision ?? '', '--revision', 0)
    return restoreRevision(ctx, openProject(ctx), environment, revision, options)
  },
})

type Options = { readonly isDry: boolean; readonly isAgreed: boolean; readonly message: string | undefined }

async function restoreVersion(
  ctx: Context,
  project: Project,
  environment: string,
  { key, version }: { readonly key: string; readonly version: number },
  { isDry, isAgreed }: Options,
): Promise<void> {
  const path = { ...project.path, key }
  const query = { environmentId: environment }
  const asked = { environments: [environment], key: `${key}@${version}` }
  const [newest] = await explainMissing(project, asked, () =>
    project.api.secret.listVersions(path, { ...query, limit: 1 }),
  )
  if (!newest || newest.version < version)
    throw new CliError('notFound', `${key} has no version ${version}.`, `coffer history ${key}`)
  const plan = { key, environment, from: newest.version, to: version, version: newest.version + 1 }
  if (isDry) {
    ctx.out.show(plan, () => ({
      columns: ['name', 'environment', 'restores', 'as version'],
      rows: [[key, environment, version, plan.version]],
    }))
    return ctx.out.note('Nothing was changed.')
  }
  if (!isAgreed) {
    const what = newest.deleted ? `Bring back version ${version}` : `Replace version ${newest.version}`
    const how = newest.deleted ? '' : ` with version ${version}`
    await agree(ctx, `${what} of ${key} in ${environment}${how}?`)
    const [now] = await project.api.secret.listVersions(path, { ...query, limit: 1 })
    if (now?.version !== newest.version) throw changedMeanwhile(`${key} in ${environment}`)
  }
  const restored = await explainMissing(project, asked, () =>
    project.api.secret.restoreVersion({ ...path, version }, query),
  )
  ctx.out.show(restored, () => ({
    columns: ['name', 'environment', 'status', 'version'],
    rows: [[key, environment, 'restored', restored.version]],
  }))
}

async function restoreRevision(
  ctx: Context,
  project: Project,
  environment: string,
  revision: number,
  { isDry, isAgreed, message }: Options,
): Promise<void> {
  const { id, name } = await requireEnvironment(project, environment)
  const path = { ...project.path, environmentId: id, revision }
  const missing = `${name} has no revision ${revision}.`
  const send = (body: { readonly dryRun?: boolean }) =>
    explainMissing(project, { environments: [], missing }, () =>
      project.api.secret.restoreRevision(path, { ...body, ...(message !== undefined && { message }) }),
    )
  const plan = await send({ dryRun: true })
  if (isDry) {
    await showResults(ctx, project, plan)
    return ctx.out.note('Nothing was changed.')
  }
  if (!plan.results.some(isChange)) {
    ctx.out.note('Nothing to restore.')
    return showResults(ctx, project, plan)
  }
  const changes = describePlan(plan.results, { created: 'create', updated: 'update', deleted: 'delete' })
  ctx.out.note([`${name} of ${project.path.prj} at revision ${revision}:`, ...changes].join('\n'))
  if (!isAgreed) {
    await agree(ctx, `Bring ${name} back to revision ${revision}?`)
    if (JSON.stringify(await send({ dryRun: true })) !== JSON.stringify(plan)) throw changedMeanwhile(name)
  }
  await showResults(ctx, project, await send({}))
}

async function agree(ctx: Context, message: string): Promise<void> {
  if (await confirm(ctx, { message, hint: '--yes, or --dry-run' })) return
  throw new CliError('cancelled', 'Cancelled.')
}

/** A question may stand for an hour; what was agreed to is what was shown. */
const changedMeanwhile = (what: string) =>
  new CliError('conflict', `Somebody has changed ${what} meanwhile: nothing was restored.`)
