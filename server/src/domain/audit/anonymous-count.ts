import { anonymous } from '../actor.ts'
import { noRequest, type Services } from '../context.ts'
import { newRun } from '../request-run.ts'
import { recordAct } from '../transaction.ts'

/** Records how many acts of strangers were only counted, once their window is over. */
export async function recordUnrecorded(services: Services): Promise<void> {
  const ctx = { ...services, actor: anonymous, request: { id: 'cleanup', ...noRequest }, run: newRun() }
  for (const event of services.strangers.takeUnrecorded()) await recordAct(ctx, event)
}
