/** Readiness: the store must answer and accept commits, because every read of a value writes an audit entry. */

import { isDiskFull } from '../disk-full.ts'
import { withTimeout } from '../event-loop.ts'
import { traceOf } from '../log.ts'
import { storeIdentity, tryWrite } from '../store/instance.ts'
import { describeBackups, readBackupState } from './backup/state.ts'
import type { Services } from './context.ts'

/** Interval of test writes after a refused commit, until one succeeds. Readiness checks try one too meanwhile. */
const tryEveryMs = 2_000
/** Load balancers time out after a few seconds themselves: a store that hangs for this long counts as not ready. */
const answerWithinMs = 2_000

type HealthCheck = { readonly name: string; readonly ok: boolean; readonly message: string }

export type Health = {
  /** Rejects unless the store answers queries and accepts commits in time. */
  checkReady(): Promise<void>
  /** Every check in one sentence that a stranger may read. Only `isReady` decides whether requests are served. */
  describe(): Promise<{ readonly isReady: boolean; readonly checks: readonly HealthCheck[] }>
  /** Identity of the store; undefined while it does not answer. */
  identify(): Promise<string | undefined>
  stop(): void
}

export function createHealth(services: Pick<Services, 'config' | 'engine' | 'store' | 'log' | 'now'>): Health {
  const { engine, store, log, now } = services
  let isRefusing = false
  let isFull = false
  let trying: Promise<void> | undefined
  let checking: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  engine.onRefusal((error) => {
    if (isRefusing) return
    isRefusing = true
    isFull = isDiskFull(error)
    const reason = isFull ? ', because the disk of the store is full: make room' : ''
    log.error(`writes are refused, and with them reads of values${reason}`, traceOf(error))
    timer = setInterval(() => tryAgain().catch(() => undefined), tryEveryMs)
    timer.unref()
  })

  // Only this test write proves recovery: a commit without changes succeeds even on a full disk.
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

  function checkReady(): Promise<void> {
    // All callers share one check: if the store hangs, each check of its own would hold a connection.
    checking ??= check().finally(() => {
      checking = undefined
    })
    return withTimeout(answerWithinMs, checking)
  }

  async function describeStore(): Promise<HealthCheck> {
    return checkReady().then(
      () => ({ name: 'store', ok: true, message: 'The store answers and accepts writes.' }),
      () => ({
        name: 'store',
        ok: false,
        message:
          isRefusing && isFull
            ? 'The disk of the store is full, so it refuses writes.'
            : 'The store does not answer, or refuses writes.',
      }),
    )
  }

  async function describeBackup(): Promise<HealthCheck[]> {
    const state = await withTimeout(answerWithinMs, readBackupState(services))
    return state === undefined ? [] : [{ name: 'backup', ...describeBackups(state, now()) }]
  }

  return {
    checkReady,
    async describe() {
      const first = await describeStore()
      return { isReady: first.ok, checks: [first, ...(first.ok ? await describeBackup().catch(() => []) : [])] }
    },
    identify: () => withTimeout(answerWithinMs, storeIdentity(engine)).catch(() => undefined),
    stop() {
      clearInterval(timer)
    },
  }
}
