import { authEndpoints } from '@coffer/contract/auth'
import { resetPassword } from '../../../domain/account/password-reset.ts'
import type { OpenedSession } from '../../../domain/account/session.ts'
import { exchangeToken } from '../../../domain/auth/exchange.ts'
import { login } from '../../../domain/auth/login.ts'
import { logout } from '../../../domain/auth/logout.ts'
import { register } from '../../../domain/auth/register.ts'
import { readAuthState } from '../../../domain/auth/state.ts'
import type { Context } from '../../../domain/context.ts'
import { sessionMaxMs } from '../../../domain/session-life.ts'
import { secondMs } from '../../../domain/time.ts'
import type { Reply } from '../../exchange.ts'
import { sessionCookie } from '../../request/credential-header.ts'
import { type Routes, succeed } from '../../route.ts'

export const authRoutes: Routes = (serve) => {
  serve(authEndpoints.readAuthState, ({ ctx }) => readAuthState(ctx))
  serve(authEndpoints.exchangeToken, ({ ctx }) => exchangeToken(ctx))
  serve(authEndpoints.register, async ({ ctx, body }, reply) => signIn(ctx, reply, await register(ctx, body)))
  serve(authEndpoints.login, async ({ ctx, body }, reply) => signIn(ctx, reply, await login(ctx, body)))
  serve(authEndpoints.resetPassword, ({ ctx, body }) => succeed(resetPassword(ctx, body)))
  serve(authEndpoints.logout, ({ ctx }, reply) => signOut(ctx, reply))
  serve(authEndpoints.logoutCli, ({ ctx }, reply) => signOut(ctx, reply))
}

function signIn(ctx: Context, reply: Reply, { signedIn, value }: OpenedSession) {
  // The cookie lives as long as a session possibly can, and the server enforces the idle limit: a shorter cookie would
  // end sessions in use.
  reply.header('set-cookie', sessionCookie(ctx.config, value, sessionMaxMs / secondMs))
  return signedIn
}

async function signOut(ctx: Context, reply: Reply) {
  await logout(ctx)
  reply.header('set-cookie', sessionCookie(ctx.config, '', 0))
  return { success: true }
}
