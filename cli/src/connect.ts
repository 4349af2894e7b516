/** The client of the service, with a call for every endpoint. */
import { type Api, type ConnectOptions, createApi } from '@coffer/sdk'
import { connectOptions } from './connect-options.ts'
import type { Context } from './context.ts'

/** With the credential of the environment, or else the session of the last login. */
export function connect(ctx: Context, options: Partial<ConnectOptions> = {}): Api {
  return createApi(connectOptions(ctx, options))
}
