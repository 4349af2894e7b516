/** Accounts, sign-in and sign-out, and the exchange of an API token for a JWT. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { AccessToken, Login, Registration, SignedIn } from '@coffer/contract/auth'
import { newId } from '../crypto/id.ts'
import { jwtLifetimeSeconds, signJwt } from '../crypto/jwt.ts'
import { hashPassword, verifyPassword } from '../crypto/password.ts'
import { createBearer, sessionPrefix } from '../crypto/token.ts'
import { Failure } from '../failure.ts'
import type { Account } from '../store/account.ts'
import { requireSession } from './access.ts'
import { record } from './audit.ts'
import { type Actor, type Context, systemChain, type WriteContext } from './context.ts'
import { sessionIdleMs, sessionMaxMs } from './credential.ts'
import { normaliseEmail } from './email.ts'
import { findOpenInvite, type OpenInvite, takeUpInvite } from './invite.ts'
import { defaultPreferences } from './me.ts'
import { checkSlug } from './slug.ts'
import { minuteMs } from './time.ts'
import { announce, inQuietTransaction, inTransaction } from './transaction.ts'
import { insertWorkspace } from './workspace.ts'

const maxLoginFailures = 10
const loginWindowMs = 10 * minuteMs
const firstWorkspace = { name: 'Main', slug: 'main' }

const entity = (account: { id: string; email: string }) => ({ type: 'user', id: account.id, name: account.email })

/** A session just opened: the answer, and the value for the cookie. */
export type OpenedSession = { readonly signedIn: SignedIn; readonly value: string }

export async function register(ctx: Context, body: Registration): Promise<OpenedSession> {
  const email = normaliseEmail(body.email)
  if (body.workspace) checkSlug(body.workspace.slug)
  const { isFirst, invite } = await admitRegistration(ctx, body, email)
  const wanted = body.workspace ?? (isFirst ? firstWorkspace : undefined)
  const passwordHash = await hashPassword(body.password)
  const at = ctx.now()
  const account: Account = {
    id: newId(),
    email,
    name: body.name,
    passwordHash,
    preferences: defaultPreferences,
    createdAt: at,
  }
  const workspaceId = newId()
  const chains = [systemChain, ...(wanted ? [workspaceId] : []), ...(invite ? [invite.workspaceId] : [])]
  return inTransaction(asUser(ctx, account), chains, async (ctx) => {
    // Under the lock of the system's chain: of two first accounts at once, one is the first.
    await admitRegistration(ctx, body, email)
    if (!(await ctx.store.accounts.insert(account))) {
      throw new Failure('conflict', 'An account with this email address exists already: sign in instead.')
    }
    await record(ctx, { chain: systemChain, action: 'CREATE', entity: entity(account) })
    if (wanted) await insertWorkspace(ctx, { id: workspaceId, ...wanted, createdAt: at }, account.id)
    if (invite) await takeUpInvite(ctx, invite, account)
    return openSession(ctx, account)
  })
}

type Admission = { readonly isFirst: boolean; readonly invite?: OpenInvite }

/** By what right an account is made: it is the very first one, it is invited, or anyone may; throws where none holds. */
async function admitRegistration(ctx: Context, body: Registration, email: string): Promise<Admission> {
  const isFirst = (await ctx.store.accounts.count()) === 0
  if (!isFirst) {
    if (body.inviteToken !== undefined) {
      const invite = await findOpenInvite(ctx, body.inviteToken)
      if (invite?.email === email) return { isFirst, invite }
      throw new Failure(
        'forbidden',
        'inviteToken: this invite is used, over, or meant for another address: ask an admin of your workspace for a new one.',
      )
    }
    if (ctx.config.signup === 'open') return { isFirst }
    throw new Failure('forbidden', 'Registration is closed: ask an admin of your workspace for an invite.')
  }
  const { setupCode } = ctx.config
  if (setupCode !== undefined && !isEqual(setupCode, body.setupCode ?? '')) {
    throw new Failure('forbidden', 'setupCode: the first account needs the code that the service logged at its start.')
  }
  return { isFirst }
}

export function login(ctx: Context, body: Login): Promise<OpenedSession> {
  const email = normaliseEmail(body.email)
  return inTurn(email, () => loginInTurn(ctx, email, body.password))
}

const turns = new Map<string, Promise<unknown>>()

/** One login of an address after another: an attempt counts until it is known to be right, and many may be right at once. */
function inTurn<Result>(email: string, work: () => Promise<Result>): Promise<Result> {
  const mine = (turns.get(email) ?? Promise.resolve()).then(work, work)
  turns.set(email, mine)
  const leave = () => {
    if (turns.get(email) === mine) turns.delete(email)
  }
  mine.then(leave, leave)
  return mine
}

async function loginInTurn(ctx: Context, email: string, password: string): Promise<OpenedSession> {
  const attempt = await inQuietTransaction(ctx, `login:${email}`, (store) =>
    store.loginAttempts.count(email, ctx.now(), loginWindowMs),
  )
  if (attempt.failures > maxLoginFailures) {
    const retryAfterSeconds = Math.max(1, Math.ceil((attempt.windowStartedAt + loginWindowMs - ctx.now()) / 1000))
    throw new Failure('rateLimited', 'Too many failed logins for this address: wait before you try again.', {
      retryAfterSeconds,
    })
  }
  const account = await ctx.store.accounts.findByEmail(email)
  const isRight = await verifyPassword(account?.passwordHash, password).catch(async (error) => {
    // Nobody has looked at the password: that was not a failed login.
    await inQuietTransaction(ctx, `login:${email}`, (store) => store.loginAttempts.uncount(email))
    throw error
  })
  const chains = account ? await ctx.store.workspaces.listIdsForUser(account.id) : []
  if (!account || !isRight) {
    await inTransaction(ctx, [systemChain, ...chains], async (ctx) => {
      const who = account ? entity(account) : { type: 'user', id: '', name: '' }
      for (const chain of [systemChain, ...chains]) {
        await record(ctx, { chain, action: 'LOGIN', entity: who, outcome: 'failure' })
      }
    })
    throw new Failure('loginRefused')
  }
  return inTransaction(asUser(ctx, account), [systemChain, ...chains], async (ctx) => {
    await ctx.store.loginAttempts.forget(email)
    for (const chain of chains) await record(ctx, { chain, action: 'LOGIN', entity: entity(account) })
    return openSession(ctx, account)
  })
}

export async function logout(ctx: Context): Promise<void> {
  const { sessionId, userId } = requireSession(ctx)
  const chains = [systemChain, ...(await ctx.store.workspaces.listIdsForUser(userId))]
  await inTransaction(ctx, chains, async (ctx) => {
    await ctx.store.sessions.remove(sessionId, userId)
    const who = entity({ id: userId, email: ctx.actor.name })
    for (const chain of chains) await record(ctx, { chain, action: 'LOGOUT', entity: who })
    await announce(ctx, 'user', userId)
  })
}

export async function exchangeToken(ctx: Context): Promise<AccessToken> {
  const { credential } = ctx.actor
  if (credential.type !== 'static' && credential.type !== 'cli-token') throw new Failure('unauthenticated')
  const { token } = credential
  const issuedAt = Math.floor(ctx.now() / 1000)
  const accessToken = signJwt(ctx.keys.signer('jwt'), {
    iss: ctx.config.publicUrl,
    sub: token.id,
    kind: 'token',
    workspace: token.workspaceId,
    generation: credential.generation,
    iat: issuedAt,
    exp: issuedAt + jwtLifetimeSeconds,
  })
  await inTransaction(ctx, token.workspaceId, (ctx) =>
    record(ctx, {
      chain: token.workspaceId,
      action: 'EXCHANGE',
      entity: { type: 'token', id: token.id, name: token.name },
    }),
  )
  return { accessToken, expiresIn: jwtLifetimeSeconds, tokenType: 'Bearer' }
}

async function openSession(ctx: WriteContext, account: Account): Promise<OpenedSession> {
  const value = createBearer(sessionPrefix)
  const at = ctx.now()
  const session = {
    id: newId(),
    userId: account.id,
    type: 'browser',
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent.slice(0, 256),
    createdAt: at,
    lastSeenAt: at,
    expiresAt: at + sessionMaxMs,
  } as const
  await ctx.store.sessions.insert(session, value)
  await record(ctx, { chain: systemChain, action: 'LOGIN', entity: entity(account) })
  const { id, email, name } = account
  const expiresIn = sessionIdleMs.browser / 1000
  return { value, signedIn: { accessToken: value, expiresIn, tokenType: 'Bearer', user: { id, email, name } } }
}

function asUser(ctx: Context, account: Account): Context {
  const actor: Actor = {
    type: 'user',
    id: account.id,
    name: account.email,
    userId: account.id,
    credential: { type: 'none' },
  }
  return { ...ctx, actor }
}

function isEqual(expected: string, actual: string): boolean {
  const [a, b] = [expected, actual].map((text) => Buffer.from(text))
  return a !== undefined && b !== undefined && a.length === b.length && timingSafeEqual(a, b)
}

/** Short enough to type, long enough not to guess. */
export function newSetupCode(): string {
  return randomBytes(15).toString('base64url')
}
