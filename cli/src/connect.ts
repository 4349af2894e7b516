/** The client of the service: the SDK with the transport and the session of the command line. */
import { type Api, type ConnectOptions, createApi } from '@coffer/sdk'
import { nodeTransport } from '@coffer/sdk/node'
import type { Context } from './context.ts'
import { CliError } from './error.ts'
import { readSettings, requireSetting } from './place/place.ts'
import { findSession } from './session/session.ts'

/** Every endpoint, with the credential of the environment or else the session of the last login. */
export function connect(ctx: Context, options: Partial<ConnectOptions> = {}): Api {
  return createApi(connectOptions(ctx, options))
}

export function connectOptions(ctx: Context, options: Partial<ConnectOptions> = {}): ConnectOptions & { url: string } {
  const settings = readSettings(ctx)
  const url = options.url ?? requireSetting(settings, 'url')
  const workspace = settings.find('workspace')?.value
  return {
    ...(workspace !== undefined && { workspace }),
    findSession: async () => {
      const session = await findSession(ctx.env, url)
      if (session === undefined && ctx.env.COFFER_TOKEN === '') {
        throw new CliError(
          'notSignedIn',
          `COFFER_TOKEN is set but empty, and you are not signed in to ${url}.`,
          `set COFFER_TOKEN, or coffer login ${url}`,
        )
      }
      if (session === undefined)
        throw new CliError('notSignedIn', `You are not signed in to ${url}.`, `coffer login ${url}`)
      return session
    },
    ...options,
    url,
    platform: { transport: nodeTransport, env: ctx.env, ...options.platform },
  }
}
