/**
 * The log that SQLite writes ahead of its file. SQLite only hands a commit to the operating system; here the disk is
 * waited for before anybody is told of that commit: the promise of `synchronous = full`. A slow disk is waited for beside
 * the event loop, and what the log holds is brought into the file by a thread of its own, while other requests go on.
 */
import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { Failure } from '../../failure.ts'
import { createDiskPace } from './sqlite-disk-pace.ts'

const syncData = promisify(fdatasync)

/** As long as SQLite itself lets it become; where it grows faster than it is brought in, writers wait. */
const longPages = 1_000
const tooLongPages = 4_000
/** To look costs as much as a small commit: not every transaction does. */
const commitsPerLook = 8

type Wal = {
  /** Before a transaction; rejects where the disk has failed and what it lost cannot be made good. */
  prepare(): Promise<void>
  /** Resolves once all that is committed is on the disk. */
  harden(): Promise<void>
  /** After a commit that failed, most likely for want of room: the log is emptied before the next one. */
  makeRoom(): void
  close(): Promise<void>
}

export function openWal(path: string, writer: DatabaseSync, quickEnoughMs?: number): Wal {
  const look = writer.prepare('pragma wal_checkpoint(noop)')
  const pace = createDiskPace(quickEnoughMs)
  let file: number | undefined
  let isSuspect = false
  let needsRoom = false
  let commitsSinceLook = 0
  let checkpointer: Worker | undefined
  let hasThread = true
  /** Beside those that write; the second is when it is done, and while none of them does. */
  let firstPass: Promise<void> | undefined
  let isFirstPassDone = false

  function open(): number {
    const opened = openSync(`${path}-wal`, 'r')
    // The names of new files are on the disk once their folder is.
    const folder = openSync(dirname(path), 'r')
    fsyncSync(folder)
    closeSync(folder)
    return opened
  }

  function startCheckpointer(): Worker {
    // Only where it is needed: an idle service does without.
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const worker = new Worker(new URL('./sqlite-checkpoint.ts', import.meta.url), { workerData: path })
    worker.unref()
    // Where none can be had it is done here: others wait for it, but the log stays short.
    return worker
      .on('error', () => {
        hasThread = false
      })
      .once('exit', () => {
        checkpointer = undefined
      })
  }

  async function sync(log: number): Promise<void> {
    const startedAt = performance.now()
    if (!pace.isQuick(startedAt)) return syncData(log)
    fdatasyncSync(log)
    pace.note(startedAt, performance.now())
  }

  /** Also resolves where it could not be done: then the log is still long, and the next look begins anew. */
  async function checkpoint(): Promise<void> {
    if (!hasThread) return checkpointHere()
    checkpointer ??= startCheckpointer()
    const worker = checkpointer
    return new Promise((resolve) => {
      const done = () => {
        worker.off('message', done).off('exit', done)
        resolve()
      }
      worker.on('message', done).on('exit', done)
      worker.postMessage('checkpoint')
    })
  }

  function checkpointHere(): void {
    try {
      writer.exec('pragma wal_checkpoint(passive)')
    } catch {
      // As in the thread.
    }
  }

  function begin(): void {
    firstPass = checkpoint().then(() => {
      isFirstPassDone = true
    })
  }

  async function finish(): Promise<void> {
    await firstPass
    await checkpoint()
    firstPass = undefined
    isFirstPassDone = false
  }

  /** The system may have dropped what it failed to write: all of it goes into the file, or nothing goes on. */
  function regainTrust(): void {
    const { busy } = writer.prepare('pragma wal_checkpoint(truncate)').get() ?? {}
    if (busy !== 0) throw new Failure('unavailable')
    isSuspect = false
  }

  return {
    async prepare() {
      if (isSuspect) regainTrust()
      if (needsRoom || isFirstPassDone) await finish()
      if (++commitsSinceLook < commitsPerLook && !needsRoom && !firstPass) return
      commitsSinceLook = 0
      const { log, checkpointed } = look.get() ?? {}
      const pages = Number(log) - Number(checkpointed)
      needsRoom &&= pages > 0
      if (firstPass && pages > tooLongPages) await finish()
      else if (!firstPass && pages > longPages) begin()
    },
    async harden() {
      try {
        file ??= open()
        await sync(file)
      } catch (cause) {
        isSuspect = true
        throw new Failure('unavailable', undefined, { cause })
      }
    },
    makeRoom() {
      needsRoom = true
    },
    async close() {
      if (file !== undefined) closeSync(file)
      if (!checkpointer) return
      const worker = checkpointer
      worker.ref()
      const ended = new Promise((resolve) => worker.once('exit', resolve))
      worker.postMessage('close')
      await ended
    },
  }
}
