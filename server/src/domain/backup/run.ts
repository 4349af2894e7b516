/** Scheduled backups: one node of several makes, verifies and stores them, and removes those that are no longer kept. */
import { stat } from 'node:fs/promises'
import type { BackupPlace } from '../../backup-setting.ts'
import { newId } from '../../crypto/id.ts'
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import type { ReadStore, Store } from '../../store/store.ts'
import type { Services } from '../context.ts'
import { holdLease, type Lease, leaseMs } from '../lease.ts'
import { hourMs, minuteMs } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'
import { makeBackup } from './make.ts'
import { putMarker } from './marker.ts'
import { pruneBackups } from './prune.ts'
import { isOwnBackup } from './read.ts'
import { openStaging, type Staging } from './staging.ts'
import { readBackupState } from './state.ts'
import { withDeadline } from './target/deadline.ts'
import { markerOf, newBackupName } from './target/name.ts'
import { openPlace } from './target/open.ts'
import { type BackupTarget, TargetError } from './target/target.ts'

const leaseId = 'backup'
const maxBackoffMs = hourMs
/** Between the starts of two runs of this process. */
const minPauseMs = minuteMs
/** The lease is held meanwhile, and another backup may be due. */
const pruneWithinMs = 30 * minuteMs

export async function runDueBackup(services: Services, place: BackupPlace, signal: AbortSignal): Promise<void> {
  if (isTooSoon(services) || !(await isDue(services))) return
  const at = services.now()
  const fence = await inQuietTransaction(services, leaseId, (store) => store.leases.claim(leaseId, at, at + leaseMs))
  if (fence === undefined) return
  const row = {
    isHeld: (store: ReadStore) => store.leases.isHeld(leaseId, fence),
    renew: (store: Store, until: number) => store.leases.renew(leaseId, fence, until),
  }
  const lease = holdLease(services, leaseId, row, at + leaseMs)
  try {
    // Another node may have made it between the look and the claim.
    if (await isDue(services)) {
      services.lastBackup.startedAt = services.now()
      await runBackup(services, place, lease, signal)
    }
  } finally {
    await lease.stopRenewing()
    await inQuietTransaction(services, leaseId, (store) => store.leases.release(leaseId, fence))
  }
}

function isTooSoon({ lastBackup: { startedAt }, now }: Services): boolean {
  // A last start in the future comes from a clock that was set back since.
  return startedAt !== undefined && Math.abs(now() - startedAt) < minPauseMs
}

/** A failed run is repeated after a minute, then after twice the time each, up to an hour. */
async function isDue(services: Services): Promise<boolean> {
  const state = await readBackupState(services)
  if (state === undefined) return false
  const { newest, failures, lastFailureAt } = state
  const nowMs = services.now()
  if (newest !== undefined && nowMs < newest.madeAt + services.config.backup.everyMs) return false
  const backoffMs = Math.min(maxBackoffMs, minuteMs * 2 ** (failures - 1))
  // A failure in the future comes from a clock that was wrong.
  return lastFailureAt === undefined || nowMs >= lastFailureAt + backoffMs || lastFailureAt > nowMs + hourMs
}

async function runBackup(services: Services, place: BackupPlace, lease: Lease, signal: AbortSignal): Promise<void> {
  const { now, config, log } = services
  const target = config.backup.name
  const ending = AbortSignal.any([signal, lease.lost])
  const startedAt = now()
  const record = { id: newId(), target, startedAt, name: newBackupName(startedAt) }
  try {
    await lease.write((store) => store.backups.endUnfinished(target, startedAt, 'The run was ended before its end.'))
    const staging = await openStaging(config)
    const staged = await findOwnStaged(services, staging, startedAt - config.backup.everyMs)
    await staging.keepOnly(staged)
    const name = staged ?? record.name
    await lease.write((store) => store.backups.insert({ ...record, name }))
    if (staged === undefined) await makeBackup(services, staging, name, ending)
    const opened = await openPlace(services, place)
    const bytes = await storeBackup(services, opened, staging, name, ending)
    const end = { finishedAt: now(), verifiedAt: now(), bytes, error: null }
    await lease.write(async (store) => void (await store.backups.finish(record.id, end)))
    await staging.keepOnly(undefined)
    log.info('a backup was made and verified', { job: 'backup', ms: now() - startedAt })
    await prune(services, opened, name, ending)
    await staging.remove()
  } catch (error) {
    await recordFailure(services, record, error, signal.aborted)
  }
}

/** The folder may be shared by mistake: the backup of another installation must not be stored as one of this one. */
async function findOwnStaged({ keys }: Services, staging: Staging, sinceMs: number): Promise<string | undefined> {
  const name = await staging.findStaged(sinceMs)
  if (name === undefined) return undefined
  const isOwn = await isOwnBackup(staging.pathOf(name), keys).catch((error: unknown) => {
    // Not a backup, or one of another master key.
    if (error instanceof Failure) return false
    throw error
  })
  return isOwn ? name : undefined
}

async function storeBackup(
  services: Services,
  target: BackupTarget,
  staging: Staging,
  name: string,
  signal: AbortSignal,
): Promise<number> {
  const { size: bytes } = await stat(staging.pathOf(name))
  await target.put(name, staging.pathOf(name), { signal })
  const file = staging.pathOf(name)
  await putMarker(services, target, { name, bytes, file }, staging.pathOf(markerOf(name)), { signal })
  return bytes
}

/** A backup counts even if old ones cannot be removed, as in a bucket that lets nobody delete. */
async function prune(services: Services, target: BackupTarget, newest: string, signal: AbortSignal): Promise<void> {
  try {
    await withDeadline(target.name, pruneWithinMs, { signal }, (options) =>
      pruneBackups(services, target, newest, options),
    )
  } catch (error) {
    // The service stops, or another node goes on: the next run removes the rest.
    if (signal.aborted) return
    const problem = `old backups could not be removed: ${sentenceOf(error)}`
    services.log.warn(problem, { job: 'backup', ...traceOf(error) })
  }
}

type Attempt = { readonly id: string; readonly target: string; readonly name: string; readonly startedAt: number }

async function recordFailure(services: Services, run: Attempt, error: unknown, isStopping: boolean): Promise<void> {
  const { now, log } = services
  const sentence = isStopping ? 'The service was stopped during the backup.' : sentenceOf(error)
  if (!isStopping) log.error(`a backup failed: ${sentence}`, { job: 'backup', ...traceOf(error) })
  const end = { finishedAt: now(), verifiedAt: null, bytes: null, error: sentence }
  await inQuietTransaction(services, leaseId, async (store) => {
    // The run may have failed before its row was written.
    if (!(await store.backups.finish(run.id, end))) {
      store.backups.insert(run)
      await store.backups.finish(run.id, end)
    }
  })
}

/** Only our own errors have a text that may be shown. */
function sentenceOf(error: unknown): string {
  if (error instanceof TargetError || error instanceof Failure) return error.message
  return `An unexpected error occurred (${codeOf(error)}).`
}
