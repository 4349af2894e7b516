/**
 * SQLite's write-ahead log (WAL). SQLite hands a commit only to the operating system; `harden` waits for the disk
 * before a caller learns of it, which gives the guarantee of `synchronous = full`. Both the wait for the disk and the
 * checkpoints of the log into the file run beside the event loop.
 */
import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { Failure } from '../../failure.ts'
import { createCheckpointer } from './sqlite-checkpointer.ts'

const syncData = promisify(fdatasync)

/** Checkpoint at SQLite's own default length. If the log grows to the second limit, writers wait for the checkpoint. */
const longPages = 1_000
const tooLongPages = 4_000
/** Reading the log's length costs as much as a small commit, so only every eighth transaction does. */
const commitsPerLook = 8
type Wal = {
  /** Call before a transaction. Rejects if a disk failure may have lost commits that cannot be recovered. */
  prepare(): Promise<void>
  /** Resolves once every commit until now is on the disk. */
  harden(): Promise<void>
  /** Call after a failed commit, most likely on a full disk: the log is checkpointed before the next one. */
  makeRoom(): void
  close(): Promise<void>
}

export function openWal(path: string, writer: DatabaseSync): Wal {
  const look = writer.prepare('pragma wal_checkpoint(noop)')
  const checkpointer = createCheckpointer(path, writer)
  let file: number | undefined
  let syncing: Promise<void> | undefined
  let next: Promise<void> | undefined
  let isSuspect = false
  let needsRoom = false
  let commitsSinceLook = 0
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

  async function sync(): Promise<void> {
    // The system reports a lost page once: another sync would succeed without it.
    if (isSuspect) throw new Failure('unavailable')
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

  function begin(): void {
    firstPass = checkpointer.run().then(() => {
      isFirstPassDone = true
    })
  }

  async function finish(): Promise<void> {
    await firstPass
    await checkpointer.run()
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
      await checkpointer.close()
    },
  }
}
