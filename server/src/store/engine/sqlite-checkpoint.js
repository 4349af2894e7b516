/**
 * Worker thread of `sqlite-wal.ts`: checkpoints the WAL into the database file without blocking readers or writers. Plain
 * JavaScript on purpose: a thread that strips types holds 16 MB for it, for as long as it lives.
 */
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

const connection = new DatabaseSync(String(workerData))
parentPort?.on('message', (wish) => {
  if (wish === 'close') {
    connection.close()
    parentPort?.close()
    return
  }
  try {
    connection.exec('pragma wal_checkpoint(passive)')
  } catch {
    // Most likely a full disk: the log keeps growing until a later attempt succeeds.
  }
  parentPort?.postMessage('done')
})
