/** Moves SQLite's write-ahead log into the file: in a thread, or on the event loop while there can be none. */
import type { DatabaseSync } from 'node:sqlite'
import type { Worker } from 'node:worker_threads'

type Checkpointer = {
  /** Resolves even if it failed: the log is then still long, and its next look starts another. */
  run(): Promise<void>
  close(): Promise<void>
}

/** A thread holds some 5 MB, and starts within milliseconds. */
const threadIdleMs = 10_000

export function createCheckpointer(path: string, writer: DatabaseSync, idleMs: number = threadIdleMs): Checkpointer {
  let thread: Worker | undefined
  /** Resolves once every thread that is not in use any more has ended. */
  let ended: Promise<unknown> = Promise.resolve()
  let retirement: NodeJS.Timeout | undefined

  function start(): Worker {
    // Loaded on demand: an idle service needs no worker thread.
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const worker = new Worker(new URL('./sqlite-checkpoint.js', import.meta.url), { workerData: path })
    const exit = new Promise<void>((resolve) => {
      worker.once('exit', () => {
        if (thread === worker) thread = undefined
        resolve()
      })
    })
    ended = Promise.all([ended, exit])
    // Its exit follows.
    worker.on('error', () => undefined).unref()
    return worker
  }

  function retire(): void {
    // From here on, the process waits for its end.
    thread?.ref()
    thread?.postMessage('close')
    thread = undefined
  }

  /** False if no thread could do it: there are too many processes, or it cannot open the file. */
  function runInThread(): Promise<boolean> {
    try {
      thread ??= start()
    } catch {
      return Promise.resolve(false)
    }
    const worker = thread
    clearTimeout(retirement)
    return new Promise((resolve) => {
      const done = () => end(true)
      const gone = () => end(false)
      const end = (isDone: boolean) => {
        worker.off('message', done).off('exit', gone)
        retirement = setTimeout(retire, idleMs).unref()
        resolve(isDone)
      }
      worker.on('message', done).on('exit', gone)
      worker.postMessage('checkpoint')
    })
  }

  return {
    async run() {
      if (await runInThread()) return
      try {
        // It delays requests, but the log stays short.
        writer.exec('pragma wal_checkpoint(passive)')
      } catch {
        // As in the thread: a later attempt may succeed.
      }
    },
    async close() {
      clearTimeout(retirement)
      retire()
      await ended
    },
  }
}
