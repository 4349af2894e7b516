/** Keeps the setup code in the data folder until the first account exists, for whoever runs the service. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../error-code.ts'
import type { Log } from '../../log.ts'
import { makeFolder } from '../../make-folder.ts'

export type SetupCodeFile = {
  /** Replaces the file of an earlier start, and never follows a link. Does nothing after `remove`. */
  write(code: string): void
  remove(): void
}

export function createSetupCodeFile(dataDir: string, log: Log): SetupCodeFile {
  const path = join(dataDir, 'setup-code')
  let isRemoved = false

  /** A folder that nothing can be written to must not stop the service: the printed link has the code too. */
  function attempt(work: () => void, problem: string): void {
    try {
      work()
    } catch (error) {
      log.warn(`${path} ${problem} (${codeOf(error)})`)
    }
  }

  return {
    write(code) {
      if (isRemoved) return
      attempt(() => {
        makeFolder(dataDir)
        const unfinished = `${path}.${process.pid}`
        rmSync(unfinished, { force: true })
        writeFileSync(unfinished, `${code}\n`, { mode: 0o600, flag: 'wx' })
        renameSync(unfinished, path)
      }, 'cannot be written; the link to the setup page holds the code')
    },

    remove() {
      if (isRemoved) return
      isRemoved = true
      attempt(() => rmSync(path, { force: true }), 'cannot be removed; its code is worthless')
    },
  }
}
