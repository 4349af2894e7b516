/** Names of backups in a target. Files of any other name belong to somebody else: they are never listed or removed. */
import { randomBytes } from 'node:crypto'

const form = /^coffer-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-[a-z0-9]{6}\.backup$/
const verifiedSuffix = '.verified'

/** The time in the name is that of the start, in UTC. */
export function newBackupName(nowMs: number): string {
  const time = new Date(nowMs).toISOString().replace(/[:-]|\.\d{3}/g, '')
  return `coffer-${time}-${randomBytes(3).toString('hex')}.backup`
}

/** When the backup was begun; undefined for the name of anything else. */
export function backupTime(name: string): number | undefined {
  const [, year, month, day, hour, minute, second] = form.exec(name) ?? []
  if (year === undefined) return undefined
  const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
  return Number.isNaN(at) ? undefined : at
}

/** The small file beside a backup that was verified. */
export const markerOf = (name: string): string => `${name}${verifiedSuffix}`

/** The backup that a marker belongs to; undefined for the name of anything else. */
export function markedBackup(name: string): string | undefined {
  if (!name.endsWith(verifiedSuffix)) return undefined
  const backup = name.slice(0, -verifiedSuffix.length)
  return backupTime(backup) === undefined ? undefined : backup
}

/** Names that a target stores: backups and their markers. */
export const isStoredName = (name: string): boolean => backupTime(markedBackup(name) ?? name) !== undefined
