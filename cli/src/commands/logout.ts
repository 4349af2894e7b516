import { type Api, ApiError, CofferError, createApi } from '@coffer/sdk'
import { wipeCache } from '../cache/offline-cache.ts'
import { defineCommand } from '../command.ts'
import { connectOptions } from '../connect-options.ts'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { visible } from '../output/table.ts'
import { findUrl } from '../place/place.ts'
import { forgetLogin } from '../session/keep.ts'
import { readLogins } from '../session/login-file.ts'
import { findSession } from '../session/session.ts'

export const logout = defineCommand({
  usage: '',
  args: [0, 0],
  flags: { all: { type: 'boolean', about: 'Sign out of every service' } },
  details: `
Ends the session at the service, and removes it and all values of the offline cache from
this machine. They are removed even if the service cannot be reached.

Examples:
  coffer logout
  coffer logout --url https://coffer.example.com
  coffer logout --all`,
  async run(ctx, { flags }) {
    const known = Object.keys(readLogins(ctx.env).byUrl)
    const url = flags.all ? undefined : findUrl(ctx)
    const urls = known.filter((one) => flags.all || one === url)
    const left: string[] = []
    for (const one of urls) if (!(await endSession(ctx, one))) left.push(one)
    await wipeCache(ctx.env)
    if (urls.length === 0) ctx.out.note(url ? `You are not signed in to ${url}.` : 'You are not signed in.')
    for (const one of urls.filter((one) => !left.includes(one))) ctx.out.note(`Signed out of ${visible(one)}.`)
    ctx.out.show({ success: left.length === 0, urls }, () => ({ columns: [], rows: [] }))
    return left.length > 0 ? 7 : 0
  },
})

/** False if only this machine has forgotten the session. */
async function endSession(ctx: Context, url: string): Promise<boolean> {
  const problem = await tryToEnd(ctx, url)
  await forgetLogin(ctx.env, url)
  if (problem !== undefined) {
    ctx.out.warn(`The session was removed from this machine, but not ended at ${visible(url)}: ${visible(problem)}`)
    ctx.out.warn('It ends by itself after 8 hours without use.')
  }
  return problem === undefined
}

/** Undefined if the session has ended; else what went wrong. */
async function tryToEnd(ctx: Context, url: string): Promise<string | undefined> {
  try {
    const session = await findSession(ctx.env, url)
    if (session === undefined) return undefined
    const api: Api = createApi(connectOptions(ctx, { url, credential: session, retries: 1, timeoutMs: 5_000 }))
    await api.auth.logoutCli()
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return undefined
    if (error instanceof CofferError || error instanceof CliError) return error.message
    throw error
  }
}
