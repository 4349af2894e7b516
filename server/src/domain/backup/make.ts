/** Writes and verifies one backup file. A file that has its name has been verified. */
import { spawn } from 'node:child_process'
import { rename } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { Failure } from '../../failure.ts'
import type { MasterKeySource } from '../../master-key/master-key.ts'
import type { Services } from '../context.ts'
import type { Staging } from './staging.ts'
import { notVerified, verifyBackup } from './verify.ts'
import { writeBackup } from './write.ts'

/** Sources of a master key that people hand to the running service: another process could not get it. */
const handedOver: ReadonlySet<MasterKeySource['kind']> = new Set(['shares'])

/**
 * The command `backup` in a process of its own, if this process can start one: reading, sealing and verifying a store
 * would hold up requests, and the memory that it takes is returned at its end.
 */
export function makeBackup(services: Services, staging: Staging, name: string, signal: AbortSignal): Promise<void> {
  const { program, config } = services
  if (program === undefined || handedOver.has(config.masterKey.kind)) return makeHere(services, staging, name, signal)
  return makeBeside(program, staging, name, signal)
}

async function makeHere(services: Services, staging: Staging, name: string, signal: AbortSignal): Promise<void> {
  const unverified = `${staging.pathOf(name)}.unverified`
  await writeBackup(services, unverified, { signal })
  const scratchFolder = staging.folder
  const verdict = await verifyBackup(unverified, async () => services.keys.master, { signal, scratchFolder })
  if (!verdict.ok) throw notVerified(verdict)
  await rename(unverified, staging.pathOf(name))
}

/** Lower than the service's own, so that requests come first. */
const priority = 10
const maxReason = 500

async function makeBeside(
  program: readonly string[],
  staging: Staging,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const args = [...program, 'backup', staging.pathOf(name), '--scratch', staging.folder]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' })
  let reason = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    reason = (reason + text).slice(0, maxReason)
  })
  child.once('spawn', () => {
    try {
      if (child.pid !== undefined) setPriority(child.pid, priority)
    } catch {
      // It has ended already, or the system has no priorities.
    }
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  signal.throwIfAborted()
  if (code === 0) return
  // A command that fails says why in one line, in the words of the failure.
  throw new Failure('internal', reason.split('\n')[0] || 'The command "backup" ended without a reason.')
}
