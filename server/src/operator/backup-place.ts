/** Where the file of a backup lies: at a path, in a folder under a new name, or in a bucket. */
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { newBackupName } from '../domain/backup/target/name.ts'
import { openTarget } from '../domain/backup/target/open.ts'
import { type BackupTarget, TargetError } from '../domain/backup/target/target.ts'
import { Failure } from '../failure.ts'
import { createOutbound } from '../outbound.ts'
import { createScratchFolder } from '../store/engine/scratch-folder.ts'

const isBucket = (place: string) => place.startsWith('s3://')
const isFolder = (place: string) => statSync(place, { throwIfNoEntry: false })?.isDirectory() === true

/** For work that needs room for the whole store. */
export function scratchFolder(config: Config): string {
  return config.databaseUrl === undefined && isFolder(config.dataDir) ? config.dataDir : tmpdir()
}

/** Calls `work` with the local path of a new backup, then puts the file into its bucket. */
export async function withNewFile<Result>(
  config: Config,
  place: string,
  scratch: string,
  work: (file: string, shown: string) => Promise<Result>,
): Promise<Result> {
  if (!isBucket(place)) {
    const file = isFolder(place) ? join(place, newBackupName(Date.now())) : place
    return work(file, file)
  }
  return inScratch(scratch, async (folder) => {
    const name = newBackupName(Date.now())
    const target = await openBucket(config, place)
    const file = join(folder, name)
    const result = await work(file, `${target.name}/${name}`)
    if (statSync(file, { throwIfNoEntry: false })) await explain(target.put(name, file))
    return result
  })
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
  return inScratch(scratch, async (folder) => {
    const target = await openBucket(config, place.slice(0, cut))
    await explain(target.download(name, join(folder, name)))
    return work(join(folder, name))
  })
}

async function inScratch<Result>(parent: string, work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = createScratchFolder(parent, 'coffer-transfer-')
  try {
    return await work(folder.path)
  } finally {
    folder.remove()
  }
}

function openBucket(config: Config, place: string): Promise<BackupTarget> {
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
