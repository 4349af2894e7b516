/** How the SDK reaches the service: with the transport and the session of the command line. */
import type { ConnectOptions } from '@coffer/sdk'
import { nodeTransport } from '@coffer/sdk/node'
import type { Context } from './context.ts'
import { CliError } from './error.ts'
import { readSettings, requireSetting, type Settings } from './place/place.ts'
import { requireSafeTransport, requireTrusted } from './place/trust.ts'
import { findSession } from './session/session.ts'

export function connectOptions(
  ctx: Context,
  options: Partial<ConnectOptions> = {},
  settings: Settings = readSettings(ctx),
): ConnectOptions & { url: string } {
  const url = options.url ?? requireSetting(settings, 'url')
  requireSafeTransport(ctx, url)
  if (options.credential === undefined) requireTrusted(ctx, url, settings.find('url'))
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
