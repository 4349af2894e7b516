/** Whether the service can do its work: it needs a store that answers and takes commits, since every read of a value is recorded. */

import { within } from '../event-loop.ts'
import { traceOf } from '../log.ts'
import { tryWrite } from '../store/instance.ts'
import type { Services } from './context.ts'

/** A store that has refused a commit is tried again this often, and whenever somebody asks. */
const tryEveryMs = 2_000
/** Whoever asks has a limit of their own, mostly of a few seconds: a store that hangs is not ready. */
const answerWithinMs = 2_000

export type Health = {
  /** The store answers and takes commits, and the key that new things would be sealed under is at hand. */
  checkReady(): Promise<void>
  stop(): void
}

export function createHealth(services: Pick<Services, 'engine' | 'store' | 'log' | 'now'>): Health {
  const { engine, store, log, now } = services
  let isRefusing = false
  let trying: Promise<void> | undefined
  let checking: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  engine.onRefusal((error) => {
    if (isRefusing) return
    isRefusing = true
    log.error('writes are refused, and with them reads of values', traceOf(error))
    timer = setInterval(() => tryAgain().catch(() => undefined), tryEveryMs)
    timer.unref()
  })

  // Other commits prove nothing: one that has changed nothing succeeds on a full disk too.
  function tryAgain(): Promise<void> {
    trying ??= tryWrite(engine, now())
      .then(() => {
        isRefusing = false
        clearInterval(timer)
        log.info('writes are accepted again')
      })
      .finally(() => {
        trying = undefined
      })
    return trying
  }

  async function check(): Promise<void> {
    await store.changes.newest()
    if (isRefusing) await tryAgain()
  }

  return {
    checkReady() {
      // One for all who ask: where the store hangs, each would take a connection and keep it.
      checking ??= check().finally(() => {
        checking = undefined
      })
      return within(answerWithinMs, checking)
    },
    stop() {
      clearInterval(timer)
    },
  }
}
