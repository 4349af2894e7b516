/**
 * Trying again what may be repeated, a few times and for a few seconds; what lasts longer is for a later run. Only the
 * innermost that can repeat a thing does: a read by itself, a write by whoever knows what it wrote.
 */
import { isFault, type VendorFault } from './fault.ts'

const maxTries = 5
const firstWaitMs = 250
/** Nobody is kept waiting for longer within a run. */
const maxWaitMs = 10_000

const givenUp = new WeakSet<VendorFault>()

/** Of what was tried often enough: whoever is around it does not start over. */
export function giveUp(fault: VendorFault): VendorFault {
  givenUp.add(fault)
  return fault
}

/** Rejects where the signal ends it. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>
export type Patience = { readonly sleep: Sleep; readonly signal: AbortSignal | undefined }

/** Over as soon as nobody wants what comes after it: who comes after it sees that by the signal. */
export async function rest(ms: number, { sleep, signal }: Patience): Promise<void> {
  await sleep(ms, signal).catch((error) => {
    if (!signal?.aborted) throw error
  })
}

export async function patiently<Result>(work: () => Promise<Result>, patience: Patience): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      const waitMs = waitAfter(error, tries)
      if (waitMs === undefined || patience.signal?.aborted) {
        throw isFault(error) ? giveUp(error) : error
      }
      await rest(waitMs, patience)
    }
  }
}

/** How long to wait before the next try; undefined where it would not help, or not soon. */
function waitAfter(error: unknown, tries: number): number | undefined {
  const mayPass = isFault(error, 'transient') || isFault(error, 'rate')
  if (!mayPass || tries >= maxTries || givenUp.has(error)) return undefined
  const { retryAfterMs } = error.facts
  const waitMs = retryAfterMs ?? Math.random() * firstWaitMs * 2 ** tries
  return waitMs > maxWaitMs ? undefined : waitMs
}
