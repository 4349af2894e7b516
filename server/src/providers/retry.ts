/**
 * Retries, a few times and for a few seconds; longer outages are left to a later run. Only the innermost layer that can
 * safely repeat a call retries it: reads retry themselves, writes are retried by the code that knows what it wrote.
 */
import { isFault, type VendorFault } from './fault.ts'

const maxTries = 5
const firstWaitMs = 250
/** Maximum wait between two tries of a run. */
const maxWaitMs = 10_000

/** Marks a fault as already retried. */
export function giveUp(fault: VendorFault): VendorFault {
  fault.isGivenUp = true
  return fault
}

/** Rejects if the signal aborts. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>
export type RetryOptions = { readonly sleep: Sleep; readonly signal: AbortSignal | undefined }

/** Returns early if the signal aborts; the caller must check the signal. */
export async function rest(ms: number, { sleep, signal }: RetryOptions): Promise<void> {
  await sleep(ms, signal).catch((error) => {
    if (!signal?.aborted) throw error
  })
}

export async function withRetries<Result>(work: () => Promise<Result>, retry: RetryOptions): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      const waitMs = waitAfter(error, tries)
      if (waitMs === undefined || retry.signal?.aborted) {
        throw isFault(error) ? giveUp(error) : error
      }
      await rest(waitMs, retry)
    }
  }
}

/** Wait before the next try; undefined if a retry would not help, or not soon. */
function waitAfter(error: unknown, tries: number): number | undefined {
  const mayPass = isFault(error, 'transient') || isFault(error, 'rate')
  if (!mayPass || tries >= maxTries || error.isGivenUp) return undefined
  const { retryAfterMs } = error.facts
  const waitMs = retryAfterMs ?? Math.random() * firstWaitMs * 2 ** tries
  return waitMs > maxWaitMs ? undefined : waitMs
}
