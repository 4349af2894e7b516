/** Checks of the credential, and of the project and environment that it should reach. */
import { type Api, ApiError, CofferError, describeLeftOut, type Environment } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { describeDuration } from '../duration.ts'
import { CliError } from '../error.ts'
import { hintFor, readSettings, type Settings } from '../place/place.ts'
import { locate } from '../place/token-place.ts'
import { findNoVariables } from '../secret/no-variable.ts'
import { findEnvironment } from '../secret/project.ts'
import { type CredentialSource, findCredentialSource } from '../session/credential-source.ts'
import { readLogins } from '../session/login-file.ts'
import { readMe } from '../session/me.ts'
import { mergedSources } from '../source/source.ts'
import { type Check, fail, ok, warn } from './check.ts'

const soonMs = 24 * 3_600_000

/** With the service known to answer. */
export async function checkAccess(ctx: Context, url: string): Promise<Check[]> {
  const source = findCredentialSource(ctx.env, url)
  if (!source) return [fail('credential', `You are not signed in to ${url}.`, `coffer login ${url}`)]
  const api = connect(ctx, { timeoutMs: 5_000, retries: 0 })
  const shadowed =
    source.kind !== 'login' && readLogins(ctx.env).byUrl[url]
      ? [warn('credential', `${source.from} is used instead of your login.`, 'unset COFFER_TOKEN')]
      : []
  const credential = await checkCredential(ctx, api, source)
  if (credential.state === 'fail') return [credential, ...shadowed]
  const placed = await locate(ctx).catch(() => ctx)
  return [credential, ...shadowed, ...(await checkPlaces(api, placed)), ...(await checkNames(placed))]
}

/** Each of `sources`, where they count. */
async function checkPlaces(api: Api, ctx: Context): Promise<Check[]> {
  const settings = readSettings(ctx)
  const merged = mergedSources(settings)
  if (!merged) return checkPlace(api, settings, (name) => settings.find(name)?.value)
  const checks = await Promise.all(merged.map((source) => checkPlace(api, settings, (name) => source[name])))
  return checks.flat()
}

async function checkNames(ctx: Context): Promise<Check[]> {
  const leftOut = await findNoVariables(ctx)
  const [first] = leftOut ?? []
  if (!leftOut) return []
  if (!first) return [ok('names', 'coffer run sets every secret')]
  const text = `coffer run leaves out: ${describeLeftOut(leftOut)}`
  return [warn('names', text, `rename them, or coffer run --allow-name ${first.name}`)]
}

async function checkCredential(ctx: Context, api: Api, { from, kind }: CredentialSource): Promise<Check> {
  try {
    const { credential, email, name } = await readMe(api)
    const { type, permission, scope, expiresAt } = credential
    const reach = scope.all ? 'everything' : 'a part of the workspace'
    const text = `${from}: ${email || name}, type ${type}, ${permission} on ${reach}`
    const leftMs = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - ctx.now()
    if (type !== 'static' || leftMs > soonMs) return ok('credential', text)
    return warn('credential', `${text}. It ends in ${describeDuration(leftMs)}.`, 'coffer token rotate')
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      const hint = kind === 'login' ? 'coffer login' : 'coffer token create NAME, and set COFFER_TOKEN'
      return fail('credential', `The service does not accept ${from}: it is wrong, expired or revoked.`, hint)
    }
    return fail('credential', explained(error))
  }
}

type Find = (name: 'workspace' | 'project' | 'environment') => string | undefined

async function checkPlace(api: Api, settings: Settings, find: Find): Promise<Check[]> {
  const [ws, prj, environment] = (['workspace', 'project', 'environment'] as const).map(find)
  if (ws === undefined || prj === undefined) {
    return [warn('project', 'This folder has no project.', hintFor(settings, 'project'))]
  }
  try {
    const environments = await api.environment.list({ ws, prj })
    const project = ok('project', `${ws}/${prj} exists`)
    if (environment === undefined) {
      return [project, warn('environment', 'No environment is chosen.', hintFor(settings, 'environment'))]
    }
    return [project, checkEnvironment(prj, environments, environment)]
  } catch (error) {
    const hint = settings.isUnattended ? 'set COFFER_WORKSPACE and COFFER_PROJECT' : 'coffer init --force'
    const isAbsent = error instanceof ApiError && error.status === 404
    return [
      isAbsent
        ? fail('project', `There is no project ${ws}/${prj}, or this credential does not reach it.`, hint)
        : fail('project', explained(error)),
    ]
  }
}

/** The same words as every other command. */
function checkEnvironment(prj: string, environments: readonly Environment[], wanted: string): Check {
  try {
    findEnvironment({ path: { ws: '', prj } }, environments, wanted)
    return ok('environment', `${wanted} exists`)
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return fail('environment', error.message, error.hint)
  }
}

/** Throws what is a defect. */
function explained(error: unknown): string {
  if (error instanceof CofferError || error instanceof CliError) return error.message
  throw error
}
