/** Names from the service for the completion of a command line. Without an answer in time there are none. */
import { resolve } from 'node:path'
import type { Api } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { findUrl, readSettings, requireProject } from '../place/place.ts'
import { locate } from '../place/token-place.ts'
import { isTrusted } from '../place/trust.ts'
import { mergedSources, type NamedSource } from '../source/source.ts'
import type { FindNames, GivenFlags, NameKind } from './complete.ts'

/** A person who presses Tab does not wait longer. */
const limitMs = 300

export const namesFrom =
  (ctx: Context): FindNames =>
  async (kind, given) => {
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise<readonly string[]>((done) => {
      timer = setTimeout(done, limitMs, [])
    })
    try {
      const names = await Promise.race([requestNames(withFlags(ctx, given), kind), limit])
      // biome-ignore lint/suspicious/noControlCharactersInRegex: a name must not steer the terminal
      return names.filter((name) => !/[\u0000-\u001f\u007f-\u009f]/.test(name))
    } catch {
      return []
    } finally {
      clearTimeout(timer)
    }
  }

const withFlags = (ctx: Context, given: GivenFlags): Context => ({
  ...ctx,
  cwd: given.cwd === undefined ? ctx.cwd : resolve(given.cwd),
  flags: { ...ctx.flags, ...given },
})

async function requestNames(ctx: Context, kind: NameKind): Promise<readonly string[]> {
  // Pressing Tab confirms nothing, --url neither: the line may have been pasted.
  if (!isTrusted({ ...ctx, flags: { ...ctx.flags, url: undefined } }, findUrl(ctx) ?? '')) return []
  const limits = { timeoutMs: limitMs, retries: 0 }
  const api = connect(ctx, limits)
  if (kind === 'workspace') return (await api.workspace.list()).map(({ slug }) => slug)
  // Only the workspace is needed for the list of projects. The last login may name that of another credential.
  const from = readSettings(ctx).find('workspace')?.from
  const isNamed = kind === 'project' && from !== undefined && from !== 'the last login'
  const placed = isNamed ? ctx : await locate(ctx, limits)
  const sources = kind === 'secret' ? mergedSources(readSettings(placed)) : undefined
  if (sources) return mergedNames(api, sources)
  const { workspace: ws, project: prj } = requireProject(
    kind === 'project' ? { ...placed, flags: { ...placed.flags, project: 'any' } } : placed,
  )
  if (kind === 'project') {
    return (await api.project.list({ ws })).flatMap(({ projects }) => projects.map(({ slug }) => slug))
  }
  if (kind === 'environment') return (await api.environment.list({ ws, prj })).map(({ name }) => name)
  return (await api.secret.list({ ws, prj }, { view: 'keys' })).map(({ name }) => name)
}

/** As `coffer run` sets them. */
async function mergedNames(api: Api, sources: readonly NamedSource[]): Promise<string[]> {
  const lists = await Promise.all(
    sources.map(async ({ workspace: ws, project: prj, environment: environmentId, prefix }) =>
      (await api.secret.list({ ws, prj }, { environmentId, view: 'keys' })).map(({ name }) => prefix + name),
    ),
  )
  return [...new Set(lists.flat())].sort()
}
