/** The environments whose secrets a command receives. */
import type { Context } from '../context.ts'
import { readSettings, requireSetting, type Settings } from '../place/place.ts'
import type { Variable, Variables } from './child-environment.ts'

export type Source = {
  readonly url: string
  readonly workspace: string | undefined
  /** Undefined, as the environment, for the only environment of a token. */
  readonly project: string | undefined
  readonly environment: string | undefined
  /** Put before the names of its secrets. */
  readonly prefix: string
  /** For remarks. */
  readonly label: string
}

/**
 * `sources` of .coffer.json, or the one environment of the settings. A project that is named by a flag or a variable
 * replaces the sources, an environment theirs.
 */
export function listSources(ctx: Context, settings: Settings = readSettings(ctx)): Source[] {
  return mergedSources(ctx, settings) ?? [ownSource(ctx, settings)]
}

/** Undefined if no `sources` count here. */
export function mergedSources(ctx: Context, settings: Settings): Source[] | undefined {
  const isExplicit = (name: 'project' | 'environment') =>
    ctx.flags[name] !== undefined || Boolean(ctx.env[`COFFER_${name.toUpperCase()}`])
  const listed = isExplicit('project') ? undefined : settings.file?.content.sources
  if (!listed || listed.length === 0) return undefined
  return listed.map((source) =>
    sourceOf(
      settings,
      source.project ?? requireSetting(settings, 'project'),
      (isExplicit('environment') ? undefined : source.environment) ?? requireSetting(settings, 'environment'),
      source.prefix,
    ),
  )
}

function ownSource(ctx: Context, settings: Settings): Source {
  const project = settings.find('project')?.value
  const environment = settings.find('environment')?.value
  const hasToken = ctx.env.COFFER_TOKEN || ctx.env.COFFER_TOKEN_FILE
  if (hasToken && project === undefined && environment === undefined) {
    const url = requireSetting(settings, 'url')
    return { url, workspace: undefined, project, environment, prefix: '', label: 'the environment of the token' }
  }
  return sourceOf(settings, requireSetting(settings, 'project'), requireSetting(settings, 'environment'))
}

function sourceOf(settings: Settings, project: string, environment: string, prefix = ''): Source {
  const workspace = requireSetting(settings, 'workspace')
  const label = `${workspace}/${project}/${environment}`
  return { url: requireSetting(settings, 'url'), workspace, project, environment, prefix, label }
}

type Read = { readonly source: Source; readonly values: Readonly<Record<string, string>> }

/** A later source takes precedence. */
export function mergeSources(reads: readonly Read[]): Variables {
  const merged = new Map<string, Variable>()
  for (const { source, values } of reads) {
    for (const name in values) merged.set(source.prefix + name, { value: values[name] ?? '', from: source.label })
  }
  return merged
}
