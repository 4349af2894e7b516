/** One running call for all callers. A caller that aborts stops waiting; the last one to do so aborts the call. */

type Running<Result> = { readonly result: Promise<Result>; readonly controller: AbortController; callers: number }

export function createSharedCall<Result>(
  run: (signal: AbortSignal) => Promise<Result>,
): (signal: AbortSignal | undefined) => Promise<Result> {
  let running: Running<Result> | undefined

  function start(): Running<Result> {
    const controller = new AbortController()
    const started = { result: run(controller.signal), controller, callers: 0 }
    const end = () => {
      if (running === started) running = undefined
    }
    started.result.then(end, end)
    return started
  }

  return async (signal) => {
    signal?.throwIfAborted()
    running ??= start()
    const joined = running
    joined.callers++
    try {
      return await orAborted(joined.result, signal)
    } finally {
      joined.callers--
      if (joined.callers === 0 && running === joined) {
        running = undefined
        joined.controller.abort()
      }
    }
  }
}

/** Rejects when the signal aborts, although the result may still come. */
export function orAborted<Result>(result: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (!signal) return result
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/** Timers overflow beyond it, and end at once. */
const maxTimerMs = 2 ** 31 - 1

/** The rest of a deadline may be a fraction or negative: Node refuses both. */
export const timeLimit = (durationMs: number): AbortSignal =>
  AbortSignal.timeout(Math.ceil(Math.min(Math.max(durationMs, 0), maxTimerMs)))
