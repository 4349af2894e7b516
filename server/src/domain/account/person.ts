/** A person's account. Its events are recorded in the system chain and in each of the person's workspaces. */

import { yieldToEventLoop } from '../../event-loop.ts'
import { Failure } from '../../failure.ts'
import type { Account, NewAccount } from '../../store/account/account.ts'
import { requireLiving } from '../access/live-credential.ts'
import type { Actor } from '../actor.ts'
import { type AuditEvent, systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { inTransaction } from '../transaction.ts'
import { normaliseEmail } from './email.ts'

export const personEntity = (account: { id: string; email: string }) => ({
  type: 'user',
  id: account.id,
  name: account.email,
})

/** The actor for someone who has just proven their identity and has no credential yet. */
export function asUser(ctx: Context, account: NewAccount): Context {
  const actor: Actor = {
    type: 'user',
    id: account.id,
    name: account.email,
    userId: account.id,
    emailVerified: account.emailVerifiedAt !== null,
    credential: { type: 'none' },
  }
  return { ...ctx, actor }
}

export type PersonEvent = Omit<AuditEvent, 'chain'>
export type RecordPersonEvent = (event: PersonEvent) => Promise<void>

/** Every change to an account holds the lock of the system chain, so data read inside stays valid until the commit. */
export async function inPersonTransaction<Result>(
  ctx: Context,
  userId: string,
  work: (ctx: WriteContext, recordEvent: RecordPersonEvent) => Promise<Result>,
): Promise<Result> {
  const chains = [systemChain, ...(await ctx.store.workspaces.listIdsForUser(userId))]
  return inTransaction(ctx, chains, async (ctx) => {
    await requireLiving(ctx)
    return work(ctx, async (event) => {
      for (const chain of chains) record(ctx, { chain, ...event })
    })
  })
}

/** Records an event in the person's workspaces only. The caller does not await it, so the response is not delayed. */
export async function recordInWorkspaces(ctx: Context, userId: string, event: PersonEvent): Promise<void> {
  await yieldToEventLoop()
  const chains = await ctx.store.workspaces.listIdsForUser(userId)
  await inTransaction(ctx, chains, async (ctx) => {
    for (const chain of chains) record(ctx, { chain, ...event })
  })
}

/** For the operator, who names people by address. */
export async function requireAddressee(ctx: Context, email: string): Promise<Account> {
  const account = await ctx.store.accounts.findByEmail(normaliseEmail(email))
  if (!account) throw new Failure('notFound', 'There is no account with this email address.')
  return account
}

export async function requireAccount(ctx: Context, userId: string): Promise<Account> {
  const account = await ctx.store.accounts.find(userId)
  if (!account) throw new Failure('unauthenticated')
  return account
}
