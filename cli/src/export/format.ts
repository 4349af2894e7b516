/** The formats of an export, and the text of those that are written here. */
import type { LeftOut } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import type { Entry } from './entry.ts'
import { fishScript } from './fish.ts'
import { dotenvReport, gitlabLimits } from './gitlab.ts'

export const serviceFormats = ['dotenv', 'shell', 'json', 'yaml', 'csv', 'docker', 'k8s', 'tfvars'] as const
type ServiceFormat = (typeof serviceFormats)[number]
/** Formats that the service does not write: they serve one program of the person or the pipeline. */
export const ownFormats = ['fish', 'github', 'gitlab'] as const
export type Format = ServiceFormat | (typeof ownFormats)[number]

export const isOfService = (format: Format): format is ServiceFormat =>
  serviceFormats.some((ofService) => ofService === format)

/** These leave out names that make programs run other code; the others are files of data. */
export const setsVariables = (format: Format): boolean => format === 'shell' || !isOfService(format)

/** The export of before had no list of names: each format refused those that it cannot hold. */
export const wasSet = (format: Format, name: string): boolean =>
  format === 'github' || (format === 'gitlab' ? /^[A-Za-z0-9_]+$/ : /^[A-Za-z_][A-Za-z0-9_]*$/).test(name)

/** As the service writes it, if it knows the format. */
export async function writeText(
  ctx: Context,
  format: Exclude<Format, 'github'>,
  entries: readonly Entry[],
  leftOut: readonly LeftOut[],
): Promise<string> {
  if (format === 'fish') return fishScript(entries)
  if (format === 'gitlab') return reportOf(ctx, entries)
  if (format === 'k8s') throw kubernetesNeedsOne()
  const { FormatError, writers } = await import('@coffer/sdk/secret-format')
  const list = entries.map(([key, value]) => ({ key, value }))
  try {
    return [...writers[format](list, leftOut)].join('')
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new CliError('failure', `--format: ${error.message}`, 'another --format, such as json')
  }
}

/** With `sources`, which are several. */
export const needsOne = (what: string, why: string) =>
  usageError(`${what} needs one environment, ${why}.`, '-p PROJECT -e ENVIRONMENT')

export const kubernetesNeedsOne = () => needsOne('The format k8s', 'after which its Secret is named')

function reportOf({ out }: Context, entries: readonly Entry[]): string {
  const text = dotenvReport(entries)
  if (Buffer.byteLength(text) >= gitlabLimits.bytes || entries.length > gitlabLimits.variables) {
    out.warn('GitLab accepts 5 KiB and 20 variables in a report unless its administrator allows more.')
  }
  return text
}
