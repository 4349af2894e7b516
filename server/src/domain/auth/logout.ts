import { Failure } from '../../failure.ts'
import { requireSession } from '../access/access.ts'
import { personEntity } from '../account/person.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { announce, inTransaction } from '../transaction.ts'

export async function logout(ctx: Context): Promise<void> {
  const { sessionId, userId } = requireSession(ctx)
  const chains = [systemChain, ...(await ctx.store.workspaces.listIdsForUser(userId))]
  await inTransaction(ctx, chains, async (ctx) => {
    // Another request has just ended this session, so it is no valid credential any more.
    if (!(await ctx.store.sessions.remove(sessionId, userId))) throw new Failure('unauthenticated')
    const who = personEntity({ id: userId, email: ctx.actor.name })
    for (const chain of chains) record(ctx, { chain, action: 'LOGOUT', entity: who })
    announce(ctx, 'user', userId)
  })
}
