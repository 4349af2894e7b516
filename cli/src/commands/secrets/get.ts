import { ApiError, type Secret, type SecretQuery } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { CliError, usageError } from '../../error.ts'
import { findMerged, readMerged } from '../../secret/merged.ts'
import {
  explainMissing,
  missingSecrets,
  openProject,
  type Project,
  parseCount,
  requireEnvironment,
  requireEnvironmentName,
  requireNames,
} from '../../secret/project.ts'
import { cellOf, effectiveRow, printable, warnUnresolved } from '../../secret/value.ts'

export const get = defineCommand({
  usage: 'KEY…',
  args: [1, 1_000],
  findsPlace: true,
  flags: {
    raw: { type: 'boolean', about: 'Print the value exactly, without a line break at its end' },
    'no-resolve': { type: 'boolean', about: 'Print references to other secrets as they are stored' },
    'on-unresolved': {
      type: 'string',
      value: 'WAY',
      about: 'What to do with a reference that cannot be resolved; error by default',
      choices: ['error', 'keep', 'empty'],
    },
    version: { type: 'string', value: 'N', about: 'An earlier version, as it was stored' },
  },
  details: `
Prints the value of one key, or a table of several. On a terminal, control characters in a value are shown as text
unless --raw is given. A key that does not exist is an error (exit code 5), and then nothing is printed.
With "sources" in .coffer.json, a KEY is a name that coffer run sets; --version needs one environment: -p and -e.

Examples:
  coffer secrets get DATABASE_URL
  coffer secrets get TLS_KEY --raw > key.pem
  coffer secrets get HOST PORT -e staging
  coffer secrets get HOST --version 3`,
  async run(ctx, { flags, args }) {
    const keys = requireNames(args)
    const [first = '', another] = keys
    if (flags.raw && another !== undefined) throw usageError('--raw takes one KEY.')
    if (flags.raw && ctx.flags.json) throw usageError('Give --raw or --json.')
    if (flags['no-resolve'] && flags['on-unresolved'] !== undefined) {
      throw usageError('Give --no-resolve or --on-unresolved.')
    }
    if (flags.version !== undefined) {
      if (another !== undefined) throw usageError('--version takes one KEY.')
      const version = parseCount(flags.version, '--version')
      const environment = requireEnvironmentName(ctx)
      return printVersion(ctx, openProject(ctx), { key: first, version, environment, isRaw: flags.raw })
    }
    // The parser accepts only these choices.
    const onUnresolved = (flags['on-unresolved'] ?? 'error') as 'error' | 'keep' | 'empty'
    const query = flags['no-resolve'] ? {} : { resolve: true, onUnresolved }
    const sources = findMerged(ctx)
    const secrets = sources ? await readMerged(ctx, sources, keys, query) : await readSecrets(ctx, keys, query)
    warnUnresolved(ctx, secrets)
    if (another === undefined && !ctx.flags.json) return printValue(ctx, shownValue(secrets[0]), flags.raw)
    ctx.out.show(another === undefined ? secrets[0] : secrets, () => ({
      columns: ['name', 'value'],
      rows: secrets.map((secret) => [secret.name, cellOf(ctx, shownValue(secret))]),
    }))
  },
})

const shownValue = (secret: Secret | undefined): string => (secret && effectiveRow(secret)?.value) ?? ''

/** Reads each key by itself: reading the whole environment would be recorded as a read of every secret. */
async function readSecrets(
  ctx: Context,
  keys: readonly string[],
  query: Omit<SecretQuery, 'environmentId'>,
): Promise<Secret[]> {
  const environment = requireEnvironmentName(ctx)
  const project = openProject(ctx)
  const found: Secret[] = []
  const missing: string[] = []
  for (const key of keys) {
    try {
      found.push(await project.api.secret.read({ ...project.path, key }, { ...query, environmentId: environment }))
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error
      missing.push(key)
    }
  }
  if (missing.length === 0) return found
  const { name } = await requireEnvironment(project, environment)
  throw missingSecrets(missing, [name])
}

type Wanted = {
  readonly key: string
  readonly version: number
  readonly environment: string
  readonly isRaw: boolean
}

async function printVersion(ctx: Context, project: Project, { key, version, environment, isRaw }: Wanted) {
  const asked = { environments: [environment], key: `${key}@${version}` }
  const found = await explainMissing(project, asked, () =>
    project.api.secret.readVersion({ ...project.path, key, version }, { environmentId: environment }),
  )
  if (found.deleted && !ctx.flags.json) {
    throw new CliError('notFound', `Version ${version} of ${key} is its deletion: it has no value.`)
  }
  if (ctx.flags.json) ctx.out.show(found, () => ({ columns: [], rows: [] }))
  else await printValue(ctx, found.value ?? '', isRaw)
}

const printValue = (ctx: Context, value: string, isRaw: boolean): Promise<void> =>
  ctx.out.raw(isRaw ? value : `${printable(ctx, value)}\n`)
