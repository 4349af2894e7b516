/** The thread of `sqlite-wal.ts`: brings what SQLite wrote ahead into its file, and never makes a reader or writer wait. */
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
    // A full disk: the log grows meanwhile, and it is tried again soon.
  }
  parentPort?.postMessage('done')
})
