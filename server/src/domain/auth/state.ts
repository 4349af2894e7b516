/** The facts that a sign-in page needs before anybody has signed in. */
import type { AuthState } from '@coffer/contract/auth'
import type { Context } from '../context.ts'

export async function readAuthState(ctx: Context): Promise<AuthState> {
  const needsSetup = (await ctx.store.accounts.count()) === 0
  return {
    needsSetup,
    needsSetupCode: needsSetup,
    signup: ctx.config.signup,
    // Passwords are the only way to sign in: the server has no setting for others.
    passwordLogin: true,
    providers: [],
    version: ctx.version,
  }
}
