/** Scheduled backups: one node of several makes, verifies and stores them, and removes those that are no longer kept. */
import { stat } from 'node:fs/promises'
import type { BackupPlace } from '../../backup-setting.ts'
import { newId } from '../../crypto/id.ts'
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import type { Store } from '../../store/store.ts'
import type { Services } from '../context.ts'
import { holdLease, type Lease, leaseMs } from '../lease.ts'
import { dayMs, hourMs, minuteMs } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'
import { listExpired } from './keep.ts'
import { makeBackup } from './make.ts'
import { putMarker } from './marker.ts'
import { openStaging, type Staging } from './staging.ts'
import { readBackupState } from './state.ts'
import { markedBackup, markerOf, newBackupName } from './target/name.ts'
import { openPlace } from './target/open.ts'
import { type BackupTarget, TargetError } from './target/target.ts'

const leaseId = 'backup'
const maxBackoffMs = hourMs
/** Longer than any upload that is still going on somewhere. */
const abandonedMs = dayMs
const recordLifeMs = 400 * dayMs

export async function runDueBackup(services: Services, place: BackupPlace, signal: AbortSignal): Promise<void> {
  if (!(await isDue(services))) return
  const at = services.now()
  const fence = await inQuietTransaction(services, leaseId, (store) => store.leases.claim(leaseId, at, at + leaseMs))
  if (fence === undefined) return
  const row = {
    isHeld: (store: Store) => store.leases.isHeld(leaseId, fence),
    renew: (store: Store, until: number) => store.leases.renew(leaseId, fence, until),
  }
  const lease = holdLease(services, leaseId, row, at + leaseMs)
  try {
    // Another node may have made it between the look and the claim.
    if (await isDue(services)) await runBackup(services, place, lease, signal)
  } finally {
    await lease.stopRenewing()
    await inQuietTransaction(services, leaseId, (store) => store.leases.release(leaseId, fence))
  }
}

/** A failed run is repeated after a minute, then after twice the time each, up to an hour. */
async function isDue(services: Services): Promise<boolean> {
  const state = await readBackupState(services)
  if (state === undefined) return false
  const { newest, failures, lastFailureAt } = state
  const nowMs = services.now()
  const isFresh = newest !== undefined && nowMs < newest.startedAt + services.config.backup.everyMs
  // A start in the future comes from a clock that was wrong.
  if (isFresh && newest.startedAt <= nowMs + hourMs) return false
  const backoffMs = Math.min(maxBackoffMs, minuteMs * 2 ** (failures - 1))
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
    const staged = await staging.findStaged(startedAt - config.backup.everyMs)
    await staging.keepOnly(staged)
    const name = staged ?? record.name
    await lease.write((store) => store.backups.insert({ ...record, name }))
    if (staged === undefined) await makeBackup(services, staging, name, ending)
    const opened = await openPlace(services, place)
    const bytes = await storeBackup(services, opened, staging, name, ending)
    const end = { finishedAt: now(), verifiedAt: now(), bytes, error: null }
    await lease.write(async (store) => void (await store.backups.finish(record.id, end)))
    await staging.remove()
    log.info('a backup was made and verified', { job: 'backup', ms: now() - startedAt })
    await prune(services, opened, name)
  } catch (error) {
    await recordFailure(services, record, error, signal.aborted)
  }
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
  await putMarker(services, target, { name, bytes }, staging.pathOf(markerOf(name)), { signal })
  return bytes
}

/** A backup counts even if old ones cannot be removed, as in a bucket that lets nobody delete. */
async function prune({ config, store, log, now }: Services, target: BackupTarget, newest: string): Promise<void> {
  try {
    const files = await target.list()
    const marked = new Set(files.flatMap(({ name }) => markedBackup(name) ?? []))
    const backups = files.filter(({ name }) => markedBackup(name) === undefined)
    const known = backups.map(({ name, at }) => ({ name, at, isVerified: marked.has(name) }))
    for (const name of listExpired(known, config.backup.keep)) {
      // A kill between the two leaves an unverified one, which the next run removes.
      await target.remove(markerOf(name))
      await target.remove(name)
    }
    await target.dropUnfinished(now() - abandonedMs, new Set([newest]))
    await store.backups.removeBefore(config.backup.name, now() - recordLifeMs)
  } catch (error) {
    log.warn(`old backups could not be removed: ${sentenceOf(error)}`, { job: 'backup', ...traceOf(error) })
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
      await store.backups.insert(run)
      await store.backups.finish(run.id, end)
    }
  })
}

/** Only our own errors have a text that may be shown. */
function sentenceOf(error: unknown): string {
  if (error instanceof TargetError || error instanceof Failure) return error.message
  return `An unexpected error occurred (${codeOf(error)}).`
}
