/** Where the file of a backup lies: at a path, in a folder under a new name, or in a bucket. */
import { statSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { type MarkerContext, putMarker } from '../domain/backup/marker.ts'
import { requireRoom } from '../domain/backup/room.ts'
import { markerOf, newBackupName } from '../domain/backup/target/name.ts'
import { openTarget } from '../domain/backup/target/open.ts'
import { type BackupTarget, TargetError } from '../domain/backup/target/target.ts'
import { codeOf } from '../error-code.ts'
import { Failure } from '../failure.ts'
import { createOutbound } from '../outbound.ts'
import { createScratchFolder } from '../store/engine/scratch-folder.ts'

/** Any scheme: a place that is neither a path nor in S3 is refused as a target, not taken for a path. */
const isBucket = (place: string) => /^[a-z][a-z0-9+.-]*:\/\//i.test(place)
const isFolder = (place: string) => statSync(place, { throwIfNoEntry: false })?.isDirectory() === true

/** For work that needs room for the whole store. */
export function scratchFolder(config: Config, wanted?: string): string {
  if (wanted !== undefined) {
    if (!isFolder(wanted)) throw new ConfigError(`--scratch: there is no folder ${wanted}.`)
    return wanted
  }
  return config.databaseUrl === undefined && isFolder(config.dataDir) ? config.dataDir : tmpdir()
}

export type NewFile = {
  /** The local path to write to. */
  readonly file: string
  /** The place of the backup, for people. */
  readonly shown: string
  /** Puts the file into its bucket. A verified one gets its marker, as those of scheduled runs do. */
  store(verified: MarkerContext | undefined): Promise<void>
}

/** Calls `work` with the place of a new backup. */
export async function withNewFile<Result>(
  config: Config,
  place: string,
  scratch: string,
  work: (made: NewFile) => Promise<Result>,
): Promise<Result> {
  if (!isBucket(place) && !isFolder(place)) return work({ file: place, shown: place, store: async () => undefined })
  const name = newBackupName(Date.now())
  const target = await openPlace(config, place)
  return inScratch(scratch, (folder) => {
    const file = join(isBucket(place) ? folder : place, name)
    const shown = isBucket(place) ? `${target.name}/${name}` : file
    const store = async (verified: MarkerContext | undefined) => {
      if (isBucket(place)) await target.put(name, file)
      const { size: bytes } = statSync(file)
      if (verified) await putMarker(verified, target, { name, bytes, file }, join(folder, markerOf(name)))
    }
    const kept = isBucket(place) ? join(scratch, name) : file
    return work({ file, shown, store: (verified) => orKept(store(verified), file, kept) })
  })
}

/** Making a backup takes long: what could not be stored is not thrown away. */
async function orKept(storing: Promise<void>, file: string, kept: string): Promise<void> {
  try {
    await storing
  } catch (cause) {
    if (kept !== file) await rename(file, kept)
    const reason = cause instanceof TargetError ? cause.message : `The backup could not be stored (${codeOf(cause)}).`
    throw new Failure('unavailable', `${reason} The backup was made, and its file is ${kept}.`, { cause })
  }
}

/** Calls `work` with the local path of an existing backup, which is fetched from its bucket first. */
export async function withFile<Result>(
  config: Config,
  place: string,
  scratch: string,
  work: (file: string) => Promise<Result>,
): Promise<Result> {
  if (!isBucket(place)) return work(place)
  const cut = place.lastIndexOf('/')
  const name = place.slice(cut + 1)
  if (place[cut - 1] === '/' || /^\.{0,2}$/.test(name)) {
    throw new ConfigError(`${place} names no backup: add the name of its file, as in s3://bucket/prefix/name.`)
  }
  return inScratch(scratch, async (folder) => {
    const target = await openPlace(config, place.slice(0, cut))
    await explain(fetchFile(target, name, folder))
    return work(join(folder, name))
  })
}

async function fetchFile(target: BackupTarget, name: string, folder: string): Promise<void> {
  const bytes = await target.findBytes(name)
  if (bytes === undefined) throw new TargetError(`The backup target ${target.name} has no ${name}.`)
  await requireRoom(folder, bytes, `The folder ${dirname(folder)}`, 'the backup')
  await target.download(name, join(folder, name), bytes)
}

async function inScratch<Result>(parent: string, work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = createScratchFolder(parent, 'coffer-transfer-')
  try {
    return await work(folder.path)
  } finally {
    folder.remove()
  }
}

function openPlace(config: Config, place: string): Promise<BackupTarget> {
  const outbound = createOutbound({ allow: config.outboundAllow })
  const wait = (ms: number, signal?: AbortSignal) => sleep(ms, undefined, signal && { signal })
  return explain(openTarget({ config, outbound, now: Date.now, sleep: wait }, place))
}

async function explain<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (cause) {
    throw cause instanceof TargetError ? new Failure('unavailable', cause.message, { cause }) : cause
  }
}
