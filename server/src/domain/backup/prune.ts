/**
 * Removes the backups of this installation that are no longer kept. Another installation may use the same target, so a
 * backup counts only if its marker was signed here, or if the store knows that it was begun here.
 */
import type { Services } from '../context.ts'
import { dayMs } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'
import { type KnownBackup, listExpired } from './keep.ts'
import { checkMarker, maxMarkerBytes } from './marker.ts'
import { markedBackup, markerOf } from './target/name.ts'
import type { BackupTarget, TargetOptions } from './target/target.ts'

/** Longer than any upload that is still going on somewhere. */
const abandonedMs = dayMs
const recordLifeMs = 400 * dayMs
/** After a restore: time to find out that another backup was the right one. */
const heldMs = 30 * dayMs

export async function pruneBackups(
  services: Services,
  target: BackupTarget,
  newest: string,
  options: TargetOptions,
): Promise<void> {
  const { config, now } = services
  for (const name of listExpired(await listOwn(services, target, options), config.backup.keep, now())) {
    // A kill between the two leaves the backup, which the next run removes.
    await target.remove(markerOf(name), options)
    await target.remove(name, options)
  }
  await target.dropUnfinished(now() - abandonedMs, new Set([newest]), options)
  await inQuietTransaction(services, 'backup-records', ({ backups }) =>
    backups.removeBefore(config.backup.name, now() - recordLifeMs),
  )
}

/** Each marker is read once. */
async function listOwn(services: Services, target: BackupTarget, options: TargetOptions): Promise<KnownBackup[]> {
  const { config, store, keys, now } = services
  const madeAt = await store.backups.storeMadeAt()
  const isHeld = (at: number) => at < madeAt && now() < madeAt + heldMs
  const files = await target.list(options)
  const markers = new Map(files.map((file) => [markedBackup(file.name), file]))
  const records = new Map((await store.backups.listNames(config.backup.name)).map((row) => [row.name, row]))
  const own: KnownBackup[] = []
  for (const { name, bytes, at } of files.filter((file) => markedBackup(file.name) === undefined)) {
    const marker = markers.get(name)
    const record = records.get(name)
    // A restored store has no records: of before the restore, this is perhaps the only backup of what was lost by it.
    if (record === undefined && isHeld(at)) continue
    if (marker === undefined) {
      // The marker of a verified one may have been removed by somebody, who did not mean the backup.
      if (record) own.push({ name, at, isVerified: record.verifiedAt !== null })
      continue
    }
    // A larger file is no marker.
    const text = marker.bytes > maxMarkerBytes ? '' : await target.read(marker.name, maxMarkerBytes, options)
    const origin = checkMarker(keys.keyring, text, { name, bytes })
    // The root key that signed the marker may have been retired since.
    const isVerified = origin === 'own' || (origin === 'unknown' && typeof record?.verifiedAt === 'number')
    if (isVerified || record?.verifiedAt === null) own.push({ name, at, isVerified })
  }
  return own
}
