import { Failure } from '../failure.ts'
import type { Services } from './context.ts'

/** The store answers, and the key that new things would be sealed under is at hand. */
export async function checkReady(services: Pick<Services, 'store' | 'keys'>): Promise<void> {
  await services.store.changes.newest()
  if (services.keys.keyring.all.length === 0) throw new Failure('unavailable')
}
