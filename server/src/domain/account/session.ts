/** Sessions of a person. */
import type { SignedIn } from '@coffer/contract/auth'
import type { Session } from '@coffer/contract/me'
import { clientNetwork } from '../../address-range.ts'
import { newId } from '../../crypto/id.ts'
import { createBearer, sessionPrefix } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import type { Session as SessionRow } from '../../store/account/session.ts'
import { requireSession } from '../access/access.ts'
import type { Context, WriteContext } from '../context.ts'
import { sessionIdleMs, sessionMaxMs } from '../session-life.ts'
import { iso } from '../time.ts'
import { announce } from '../transaction.ts'
import { inPersonTransaction } from './person.ts'

const entity = ({ id, type }: { id: string; type: string }) => ({ type: 'session', id, name: type })

/** A new session: the response, and the value for the cookie. */
export type OpenedSession = { readonly signedIn: SignedIn; readonly value: string }

/** Remembers the client's network as a known one. The caller must record the login. */
export async function openBrowserSession(
  ctx: WriteContext,
  { id, email, name }: Pick<Account, 'id' | 'email' | 'name'>,
  factorId: string | null,
): Promise<OpenedSession> {
  ctx.store.loginAddresses.remember(email, clientNetwork(ctx.request.ip), ctx.now())
  const { value, expiresIn } = await openSession(ctx, id, 'browser', factorId)
  return { value, signedIn: { accessToken: value, expiresIn, tokenType: 'Bearer', user: { id, email, name } } }
}

/** Returns the session value, which is never stored. `factorId` is the second factor that the person has just used. */
export async function openSession(
  ctx: WriteContext,
  userId: string,
  type: SessionRow['type'],
  factorId: string | null,
): Promise<{ value: string; expiresIn: number }> {
  const value = createBearer(sessionPrefix)
  const at = ctx.now()
  const session = {
    id: newId(),
    userId,
    type,
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent,
    createdAt: at,
    lastSeenAt: at,
    expiresAt: at + sessionMaxMs,
  }
  ctx.store.sessions.insert(session, value)
  if (factorId !== null) ctx.store.sessionFactors.save(session.id, userId, factorId)
  return { value, expiresIn: sessionIdleMs[type] / 1000 }
}

export async function listSessions(ctx: Context): Promise<Session[]> {
  const { sessionId, userId } = requireSession(ctx)
  const sessions = await ctx.store.sessions.list(userId)
  return sessions.flatMap((session) => {
    const lastSeenAt = Math.max(session.lastSeenAt, ctx.usage.pendingSession(session.id)?.at ?? 0)
    const expiresAt = Math.min(session.expiresAt, lastSeenAt + sessionIdleMs[session.type])
    if (expiresAt <= ctx.now()) return []
    const { id, type, ip, userAgent } = session
    const times = { createdAt: iso(session.createdAt), lastSeenAt: iso(lastSeenAt), expiresAt: iso(expiresAt) }
    return [{ id, type, ip, userAgent, ...times, current: id === sessionId }]
  })
}

export async function revokeSession(ctx: Context, id: string): Promise<void> {
  const { userId } = requireSession(ctx)
  const revokedId = id.toLowerCase()
  await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const session = (await ctx.store.sessions.list(userId)).find((candidate) => candidate.id === revokedId)
    if (!session) throw new Failure('notFound')
    await ctx.store.sessions.remove(session.id, userId)
    await recordEvent({ action: 'DELETE', entity: entity(session), before: { ip: session.ip } })
    announce(ctx, 'user', userId)
  })
}

export async function revokeOtherSessions(ctx: Context): Promise<void> {
  const { sessionId, userId } = requireSession(ctx)
  await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const revoked = await endOtherSessions(ctx, userId, sessionId)
    await recordEvent({ action: 'DELETE', entity: { type: 'session', id: '', name: 'all others' }, after: { revoked } })
  })
}

export const endSessions = (ctx: WriteContext, userId: string): Promise<number> => endOtherSessions(ctx, userId, '')

/** Approved device logins that are not collected yet count as sessions and end too. */
export async function endOtherSessions(ctx: WriteContext, userId: string, keptId: string): Promise<number> {
  const devices = await ctx.store.devices.removeApproved(userId)
  const sessions = await ctx.store.sessions.removeOthers(userId, keptId)
  announce(ctx, 'user', userId)
  return sessions + devices
}
