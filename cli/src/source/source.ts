/** The environments whose secrets a command reads, and how they are merged. */
import type { Context } from '../context.ts'
import { usageError } from '../error.ts'
import { findListedSources, hintFor, isGiven, readSettings, requireSetting, type Settings } from '../place/place.ts'
import { projectFileName } from '../place/project-file.ts'

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

/** One of `sources`, or what the settings name. */
export type NamedSource = Source & {
  readonly workspace: string
  readonly project: string
  readonly environment: string
}

/**
 * `sources` of .coffer.json, or the one environment of the settings. A project that is named by a flag or a variable
 * replaces the sources, an environment theirs.
 */
export function listSources(ctx: Context, settings: Settings = readSettings(ctx)): Source[] {
  return mergedSources(settings) ?? [ownSource(ctx, settings)]
}

/** Undefined if no `sources` count here. */
export function mergedSources(settings: Settings): NamedSource[] | undefined {
  const listed = findListedSources(settings)
  return listed?.map((source, index) => {
    const project = source.project ?? requirePart(settings, index, 'project')
    const environment = isGiven(settings, 'environment') ? undefined : source.environment
    return sourceOf(settings, project, environment ?? requirePart(settings, index, 'environment'), source.prefix)
  })
}

function requirePart(settings: Settings, index: number, name: 'project' | 'environment'): string {
  const found = settings.find(name)
  if (found) return found.value
  const text = `sources[${index}] of ${projectFileName} has no ${name}, and nothing else names one.`
  throw usageError(text, hintFor(settings, name))
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

function sourceOf(settings: Settings, project: string, environment: string, prefix = ''): NamedSource {
  const workspace = requireSetting(settings, 'workspace')
  const label = `${workspace}/${project}/${environment}`
  return { url: requireSetting(settings, 'url'), workspace, project, environment, prefix, label }
}

type Read<Value> = { readonly source: Source; readonly values: Readonly<Record<string, Value>> }

/** `from` is the label of the source. */
export type Found<Value> = { readonly value: Value; readonly from: string }

/** A later source takes precedence. */
export function mergeSources<Value>(reads: readonly Read<Value>[]): ReadonlyMap<string, Found<Value>> {
  const merged = new Map<string, Found<Value>>()
  for (const { source, values } of reads) {
    for (const name in values) {
      const value = values[name]
      if (value !== undefined) merged.set(source.prefix + name, { value, from: source.label })
    }
  }
  return merged
}
