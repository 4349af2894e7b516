import type { Services } from '../domain/context.ts'
import { writeUsage } from '../domain/credential/usage.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

export async function flushUsage(services: Services): Promise<void> {
  const taken = services.usage.take()
  if (taken.tokens.size + taken.identities.size + taken.sessions.size === 0) return
  await inQuietTransaction(services, 'usage', (store) => writeUsage(store, taken))
}
