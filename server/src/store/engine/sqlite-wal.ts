/**
 * SQLite's write-ahead log (WAL). SQLite hands a commit only to the operating system; `harden` waits for the disk
 * before a caller learns of it, which gives the guarantee of `synchronous = full`. Both the wait for the disk and the
 * checkpoints of the log into the file run beside the event loop.
 */
import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { Failure } from '../../failure.ts'

const syncData = promisify(fdatasync)

/** Checkpoint at SQLite's own default length. If the log grows to the second limit, writers wait for the checkpoint. */
const longPages = 1_000
const tooLongPages = 4_000
/** Reading the log's length costs as much as a small commit, so only every eighth transaction does. */
const commitsPerLook = 8
/** A thread holds some 5 MB, and starts within milliseconds. */
const threadIdleMs = 10_000
/** A thread may be missing for a while only: too many processes, or too little memory. */
const threadRetryMs = 60_000

type Wal = {
  /** Call before a transaction. Rejects if a disk failure may have lost commits that cannot be recovered. */
  prepare(): Promise<void>
  /** Resolves once every commit until now is on the disk. */
  harden(): Promise<void>
  /** Call after a failed commit, most likely on a full disk: the log is checkpointed before the next one. */
  makeRoom(): void
  close(): Promise<void>
}

export function openWal(path: string, writer: DatabaseSync, idleMs: number = threadIdleMs): Wal {
  const look = writer.prepare('pragma wal_checkpoint(noop)')
  let file: number | undefined
  let syncing: Promise<void> | undefined
  let next: Promise<void> | undefined
  let isSuspect = false
  let needsRoom = false
  let commitsSinceLook = 0
  let checkpointer: Worker | undefined
  /** The checkpointer, and those that are ending. */
  const threads = new Set<Worker>()
  let retirement: NodeJS.Timeout | undefined
  let noThreadBefore = 0
  /**
   * A checkpoint has two passes: the first runs beside writers, the second once that is done, with writers held back.
   */
  let firstPass: Promise<void> | undefined
  let isFirstPassDone = false

  function open(): number {
    const opened = openSync(`${path}-wal`, 'r')
    // The directory entry of a new file is durable only after its folder is synced.
    const folder = openSync(dirname(path), 'r')
    fsyncSync(folder)
    closeSync(folder)
    return opened
  }

  function startCheckpointer(): Worker {
    // Loaded on demand: an idle service needs no worker thread.
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const worker = new Worker(new URL('./sqlite-checkpoint.js', import.meta.url), { workerData: path })
    worker.unref()
    threads.add(worker)
    return worker.on('error', waitForThread).once('exit', () => {
      threads.delete(worker)
      if (checkpointer === worker) checkpointer = undefined
    })
  }

  /** Without a thread, checkpoints run on the event loop: they delay requests, but the log stays short. */
  function waitForThread(): void {
    noThreadBefore = performance.now() + threadRetryMs
  }

  function findCheckpointer(): Worker | undefined {
    if (performance.now() < noThreadBefore) return undefined
    try {
      checkpointer ??= startCheckpointer()
    } catch {
      waitForThread()
    }
    return checkpointer
  }

  function retireCheckpointer(): void {
    checkpointer?.postMessage('close')
    checkpointer = undefined
  }

  async function sync(): Promise<void> {
    try {
      file ??= open()
      await syncData(file)
    } catch (cause) {
      isSuspect = true
      throw new Failure('unavailable', undefined, { cause })
    }
  }

  /** A sync that is under way may have begun before the last commit: all later commits share the next one. */
  async function syncNext(): Promise<void> {
    await syncing?.catch(() => undefined)
    next = undefined
    return startSync()
  }

  function startSync(): Promise<void> {
    const started = sync().finally(() => {
      syncing = undefined
    })
    syncing = started
    return started
  }

  /** Resolves even if the checkpoint failed: the log is then still long, and the next look starts another. */
  async function checkpoint(): Promise<void> {
    const worker = findCheckpointer()
    if (!worker) return checkpointHere()
    clearTimeout(retirement)
    return new Promise((resolve) => {
      const done = () => {
        worker.off('message', done).off('exit', done)
        retirement = setTimeout(retireCheckpointer, idleMs).unref()
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
      // As in the worker thread: a later attempt may succeed.
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

  /**
   * After a failed sync the operating system may have dropped pages of the log. Refuse to go on until a full checkpoint
   * has moved everything into the file.
   */
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
    harden() {
      if (!syncing && !next) return startSync()
      next ??= syncNext()
      return next
    },
    makeRoom() {
      needsRoom = true
    },
    async close() {
      if (file !== undefined) closeSync(file)
      clearTimeout(retirement)
      retireCheckpointer()
      const ends = [...threads].map((worker) => {
        worker.ref()
        return new Promise((resolve) => worker.once('exit', resolve))
      })
      await Promise.all(ends)
    },
  }
}
