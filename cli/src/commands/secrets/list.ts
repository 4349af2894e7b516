import type { Secret } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { usageError } from '../../error.ts'
import { formatTime } from '../../output/time.ts'
import { readSettings } from '../../place/place.ts'
import { findMerged, listMerged, type MergedSecret } from '../../secret/merged.ts'
import {
  explainMissing,
  openProject,
  type Project,
  requireEnvironment,
  requireEnvironmentNames,
} from '../../secret/project.ts'
import { environmentNames } from '../../secret/result.ts'
import { cellOf, effectiveRow, warnUnresolved } from '../../secret/value.ts'

export const list = defineCommand({
  usage: '[flags]',
  args: [0, 0],
  findsPlace: true,
  flags: {
    values: { type: 'boolean', about: 'Show the values too, with references resolved' },
    filter: { type: 'string', value: 'TEXT', about: 'Only names that contain this text' },
    'missing-in': { type: 'string', value: 'ENV', about: 'Only secrets without a value in this environment' },
    'all-environments': { type: 'boolean', about: 'The secrets of every environment' },
  },
  details: `
Lists the secrets of the environment, or of several: -e staging,production. Without an environment, and with
--all-environments, it lists those of the whole project and says where each has a value.
Values are read only with --values.
With "sources" in .coffer.json it lists the names that coffer run sets, and the source of each; --missing-in and
--all-environments need one project then: -p.

Examples:
  coffer secrets list
  coffer secrets list --filter DATABASE -e production --values
  coffer secrets list --missing-in production
  coffer secrets list --json | jq -r '.[].name'`,
  async run(ctx, { flags }) {
    const isOfProject = flags['all-environments'] || flags['missing-in'] !== undefined
    const sources = isOfProject ? undefined : findMerged(ctx)
    if (sources) {
      const merged = await listMerged(ctx, sources, { filter: flags.filter, hasValues: flags.values })
      warnUnresolved(ctx, merged)
      return ctx.out.show(merged, () => severalSources(ctx, merged))
    }
    const chosen = chooseEnvironments(ctx, flags['all-environments'], flags['missing-in'])
    const project = openProject(ctx)
    const secrets = await explainMissing(project, { environments: chosen ?? [] }, () =>
      project.api.secret.list(project.path, {
        view: flags.values ? 'full' : 'keys',
        ...(flags.values && { resolve: true }),
        ...(chosen && { environmentId: chosen }),
        ...(flags.filter !== undefined && { q: flags.filter }),
      }),
    )
    const absentIn = flags['missing-in']
    const wanted = absentIn === undefined ? secrets : await keepMissing(project, secrets, absentIn, flags.filter)
    warnUnresolved(ctx, wanted)
    const isOne = chosen?.length === 1
    const names = isOne || ctx.flags.json ? new Map<string, string>() : await environmentNames(project)
    ctx.out.show(wanted, () => (isOne ? oneEnvironment(ctx, wanted) : severalEnvironments(ctx, wanted, names)))
  },
})

/** Undefined for all environments. */
function chooseEnvironments(ctx: Context, isAll: boolean, absentIn: string | undefined): string[] | undefined {
  const setting = readSettings(ctx).find('environment')
  if (isAll && ctx.flags.environment !== undefined) throw usageError('Give --environment or --all-environments.')
  // What one environment lacks, any other may have; the one that commands use by default says nothing about that.
  const isDefault = ctx.flags.environment === undefined
  if (isAll || !setting || (absentIn !== undefined && isDefault)) return undefined
  return requireEnvironmentNames(ctx)
}

async function keepMissing(project: Project, secrets: readonly Secret[], absentIn: string, q: string | undefined) {
  const { id } = await requireEnvironment(project, absentIn)
  const there = await project.api.secret.list(project.path, {
    view: 'keys',
    environmentId: id,
    ...(q !== undefined && { q }),
  })
  const present = new Set(there.map(({ name }) => name))
  return secrets.filter(({ name, values }) => values.length > 0 && !present.has(name))
}

function oneEnvironment(ctx: Context, secrets: readonly Secret[]) {
  const { columns, cellsOf } = effectiveCells(ctx, secrets)
  return {
    columns: ['name', ...columns],
    rows: secrets.map((secret) => [secret.name, ...cellsOf(secret)]),
    empty: 'There are no secrets here.',
  }
}

function severalSources(ctx: Context, secrets: readonly MergedSecret[]) {
  const { columns, cellsOf } = effectiveCells(ctx, secrets)
  return {
    columns: ['name', 'source', ...columns],
    rows: secrets.map((secret) => [secret.name, secret.source, ...cellsOf(secret)]),
    empty: 'There are no secrets here.',
  }
}

function effectiveCells(ctx: Context, secrets: readonly Secret[]) {
  const hasValues = secrets.some(({ values }) => values.some(({ value }) => value !== undefined))
  const cellsOf = (secret: Secret) => {
    const row = effectiveRow(secret)
    const version = row?.isPersonal ? 'personal' : String(row?.version ?? '')
    const shown = hasValues ? cellOf(ctx, row?.value ?? '') : version
    return [shown, formatTime(ctx.terminal, row?.updatedAt ?? ''), cellOf(ctx, secret.note)]
  }
  return { columns: [hasValues ? 'value' : 'version', 'updated', 'note'], cellsOf }
}

function severalEnvironments(ctx: Context, secrets: readonly Secret[], names: ReadonlyMap<string, string>) {
  return {
    columns: ['name', 'environments', 'updated', 'note'],
    rows: secrets.map(({ name, values, updatedAt, note }) => {
      const places = values.map(({ environmentId, isPersonal, value }) => {
        const place = `${names.get(environmentId) ?? environmentId}${isPersonal ? ' (personal)' : ''}`
        return value === undefined ? place : `${place}: ${cellOf(ctx, value)}`
      })
      const latest =
        values
          .map((row) => row.updatedAt)
          .sort()
          .at(-1) ?? updatedAt
      return [name, places.join(', '), formatTime(ctx.terminal, latest), cellOf(ctx, note)]
    }),
    empty: 'There are no secrets here.',
  }
}
