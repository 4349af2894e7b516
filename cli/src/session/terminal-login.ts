/** Signs in with answers at the terminal: creates the first account, or asks for password and second factor. */
import { type Api, ApiError, type AuthState, type SignedIn } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { visible } from '../output/table.ts'
import { askHidden, askText } from '../prompt.ts'
import { findSetupCode } from './setup-code.ts'

const maxAttempts = 3
/** The service hashes passwords one after the other. */
const options = { timeoutMs: 30_000 }
const hint = 'run coffer login in a terminal, or set COFFER_TOKEN'

export type Wanted = { readonly url: string; readonly email: string | undefined }

/** Opens a browser session, which the caller must end. */
export function signInAtTerminal(ctx: Context, api: Api, state: AuthState, wanted: Wanted): Promise<SignedIn> {
  return state.needsSetup ? createFirstAccount(ctx, api, state, wanted) : askPassword(ctx, api, wanted.email)
}

async function createFirstAccount(ctx: Context, api: Api, state: AuthState, wanted: Wanted): Promise<SignedIn> {
  ctx.out.note('This service has no account yet. Yours will be the first one, with a workspace of its own.')
  const email = wanted.email ?? (await askEmail(ctx))
  const name = await askText(ctx, {
    message: 'Your name',
    hint,
    initial: email.split('@')[0] ?? '',
    check: (text) => (text.trim() === '' ? 'Others will see this name.' : undefined),
  })
  const password = await askNewPassword(ctx)
  const kept = state.needsSetupCode ? findSetupCode(ctx.env, wanted.url) : undefined
  for (let attempt = kept ? 0 : 1; ; attempt++) {
    const setupCode = attempt === 0 ? kept : state.needsSetupCode ? await askSetupCode(ctx) : undefined
    try {
      return await api.auth.register({ email, name: name.trim(), password, ...(setupCode && { setupCode }) }, options)
    } catch (error) {
      const isWrongCode = error instanceof ApiError && error.status === 403 && error.message.startsWith('setupCode:')
      if (!isWrongCode || !state.needsSetupCode || attempt >= maxAttempts) throw error
      ctx.out.warn(attempt === 0 ? 'The file setup-code here is of another service.' : 'This is not the setup code.')
    }
  }
}

const askEmail = (ctx: Context) =>
  askText(ctx, {
    message: 'Email address',
    hint,
    check: (text) => (/^[^\s@]+@[^\s@]+$/.test(text) ? undefined : 'An address has the form name@example.com.'),
  })

async function askNewPassword(ctx: Context): Promise<string> {
  while (true) {
    const password = await askHidden(ctx, {
      message: 'Password, at least 12 characters',
      hint,
      check: (text) => (text.length < 12 || text.length > 256 ? 'A password has 12 to 256 characters.' : undefined),
    })
    if ((await askHidden(ctx, { message: 'The same password again', hint })) === password) return password
    ctx.out.warn('The two passwords differ.')
  }
}

const askSetupCode = (ctx: Context) =>
  askHidden(ctx, {
    message: 'Setup code: COFFER_SETUP_CODE of the service, or else in the link that it printed at its start',
    hint,
    check: (text) => (text === '' ? 'The first account needs it.' : undefined),
  })

async function askPassword(ctx: Context, api: Api, given?: string): Promise<SignedIn> {
  const email = given ?? (await askEmail(ctx))
  for (let attempt = 1; ; attempt++) {
    const password = await askHidden(ctx, {
      message: `Password of ${email}`,
      hint,
      check: (text) => (text === '' ? 'A password is needed.' : undefined),
    })
    try {
      return await api.auth.login({ email, password }, options)
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (error.message.startsWith('code:')) return await askCode(ctx, api, { email, password })
      if (attempt >= maxAttempts) throw refused(error)
      ctx.out.warn(visible(error.message))
    }
  }
}

async function askCode(ctx: Context, api: Api, login: { email: string; password: string }): Promise<SignedIn> {
  for (let attempt = 1; ; attempt++) {
    const code = await askText(ctx, {
      message: 'Code of your authenticator app, or a recovery code',
      hint,
      check: (text) => (text.trim() === '' ? 'A code is needed.' : undefined),
    })
    try {
      return await api.auth.login({ ...login, code: code.trim() }, options)
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (attempt >= maxAttempts) throw refused(error)
      ctx.out.warn('The code is wrong or was already used.')
    }
  }
}

const isRefusal = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 401

const refused = ({ message }: ApiError) => new CliError('notSignedIn', message, 'coffer login')
