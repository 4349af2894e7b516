/** What `doctor` says about scheduled backups. */
import { realpath } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import type { Services } from '../context.ts'
import { describeBackups, readBackupState } from './state.ts'
import { openPlace } from './target/open.ts'
import { TargetError } from './target/target.ts'

/** Shorter than the limit of a check of `doctor`. */
const checkWithinMs = 8_000

type BackupFinding = {
  readonly level: 'ok' | 'note' | 'wrong'
  readonly what: string
  readonly why?: string
  readonly fix?: string
}

/** They may be made by hand, or by the operator of the database. */
const unscheduled: BackupFinding = {
  level: 'note',
  what: 'no backups are scheduled',
  why: 'Without a backup, every secret is lost with the disk of the store.',
  fix: 'set COFFER_BACKUP_TO to a folder on another disk, or to s3://bucket/prefix.',
}

export async function backupFindings(services: Services): Promise<BackupFinding[]> {
  const state = await readBackupState(services)
  if (state === undefined) return [unscheduled]
  const { ok, message } = describeBackups(state, services.now())
  const error = state.failures > 0 ? ` Reason: ${state.lastError ?? 'unknown'}` : ''
  const age: BackupFinding = ok
    ? { level: 'ok', what: message }
    : {
        level: 'wrong',
        what: `${message}${error}`,
        why: 'Everything written since then would be lost with the store.',
        fix: 'correct what the reason names; the service tries again within an hour.',
      }
  return [age, ...(await keyFindings(services))]
}

/** Whether the next backup could be stored, as far as that shows without writing. */
export async function placeFinding(services: Services): Promise<BackupFinding | undefined> {
  const { to, name } = services.config.backup
  if (to === undefined) return undefined
  try {
    const target = await openPlace(services, to)
    await target.check({ signal: AbortSignal.timeout(checkWithinMs) })
    return { level: 'ok', what: `${name} can be reached` }
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'TimeoutError'
    if (!isLate && !(error instanceof TargetError)) throw error
    return {
      level: 'wrong',
      what: isLate ? `The backup target ${name} does not answer.` : error.message,
      why: 'The next backup will fail.',
      fix: 'correct COFFER_BACKUP_TO, or what the sentence names.',
    }
  }
}

/** A key in the folder of the backups, or in a folder inside it: who takes the folder has both. */
async function keyFindings({ config }: Services): Promise<BackupFinding[]> {
  const { backup, masterKey } = config
  if (backup.to?.kind !== 'folder' || masterKey.kind !== 'file') return []
  const [folder, key] = await Promise.all([realPath(backup.to.path), realPath(dirname(masterKey.path))])
  if (!`${key}${sep}`.startsWith(`${folder}${sep}`)) return []
  return [
    {
      level: 'wrong',
      what: 'the master key lies beside the backups',
      why: 'Whoever copies that folder can read every secret.',
      fix: 'move the key with COFFER_MASTER_KEY_FILE, or the backups with COFFER_BACKUP_TO.',
    },
  ]
}

const realPath = (path: string) => realpath(path).catch(() => path)
