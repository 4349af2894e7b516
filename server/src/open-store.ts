/** Finds or creates the store and unlocks its keys. Each problem becomes a one-sentence error. */
import type { KeyObject } from 'node:crypto'
import { chmodSync, existsSync, realpathSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Config } from './config.ts'
import { masterWrapKey } from './crypto/keyring.ts'
import { codeOf } from './error-code.ts'
import { isFailure } from './failure.ts'
import type { Log } from './log.ts'
import { makeFolder } from './make-folder.ts'
import { custodyName, isSameCustody } from './master-key/custody.ts'
import { loadMasterKey, type WrappedMaster } from './master-key/master-key.ts'
import { masterKeySettings } from './master-key/read-source.ts'
import type { ShareSet } from './master-key/share.ts'
import { createOutbound } from './outbound.ts'
import { StartError } from './start-error.ts'
import { parameterProblem, postgresRefusal } from './store/engine/postgres-refusal.ts'
import type { Engine } from './store/engine/sql.ts'
import { openSqlite } from './store/engine/sqlite.ts'
import { fileTrouble, inspectFile, type OpenMode } from './store/engine/sqlite-connection.ts'
import { wrappedMaster } from './store/instance.ts'
import { findCustody } from './store/key/custody.ts'
import { type Keys, type MasterAccess, masterAccess, openKeys } from './store/key/key.ts'
import { hasKeys, makeKeys } from './store/key/register.ts'
import { migrate, requireCurrentSchema } from './store/migrate.ts'
import { newestTime } from './store/newest-time.ts'

export const databaseFile = 'coffer.db'

export type OpenStore = { readonly engine: Engine; readonly keys: Keys }

/** Opens the store, or creates it: checks that its commits are durable, migrates it and unlocks its keys. */
export async function makeStore(config: Config, log: Log, now: () => number): Promise<OpenStore> {
  return orClosed(await prepareStore(config, log, now), async (engine) => {
    if (config.masterKey.kind === 'file') makeKeyFolder(dirname(config.masterKey.path))
    await refuseFormerCustody(config, engine)
    const master = await findMaster(config, wrappedMaster(engine, now), !(await hasKeys(engine)))
    await refuseWrongKeys(() => makeKeys(engine, master, now))
    return { engine, keys: await unlockKeys(engine, master, now) }
  })
}

/** Opens or creates the store, and migrates it. It stays locked. */
export async function prepareStore(config: Config, log: Log, now: () => number): Promise<Engine> {
  refuseSharedFolder(config)
  return orClosed(await makeEngine(config), async (engine) => {
    await refuseOnError(engine, () => engine.checkDurability())
    await refuseOnError(engine, () => migrate(engine, now(), log.info))
    return engine
  })
}

/** Unlocks a prepared store with a key that was combined from shares. Wipes the key. */
export async function unlockStore(engine: Engine, key: Uint8Array, now: () => number): Promise<OpenStore> {
  const master = masterWrapKey(key)
  key.fill(0)
  return { engine, keys: await unlockKeys(engine, master, now) }
}

/** The sets that open the store, newest first: of its key, and of former keys until a move is finished. */
export async function requireShareSets(engine: Engine): Promise<readonly [ShareSet, ...ShareSet[]]> {
  const { current, former } = await findCustody(engine)
  const [newest, ...others] = [current, ...former].flatMap((custody) => custody?.split ?? [])
  if (newest) return [newest, ...others]
  throw new StartError(
    current
      ? `COFFER_MASTER_KEY_SHARES is on, but the master key of this store is in ${custodyName(current.kind)}: set ${masterKeySettings[current.kind]} instead.`
      : 'COFFER_MASTER_KEY_SHARES is on, but the master key of this store is not split: start without it, then run "keys split".',
  )
}

/** Opens an existing store and never creates one: a mistyped path must not leave an empty store behind. */
export async function findStore(config: Config, access: OpenMode): Promise<OpenStore> {
  return orClosed(await findEngine(config, access), async (engine) => {
    await refuseOnError(engine, () => engine.checkDurability())
    if ((await engine.migratedSteps()) === 0) throw noStore(config)
    await requireCurrentSchema(engine)
    if (!(await hasKeys(engine))) throw noStore(config)
    await refuseFormerCustody(config, engine)
    const sets = config.masterKey.kind === 'shares' ? await requireShareSets(engine) : undefined
    const master = await findMaster(config, wrappedMaster(engine, Date.now), false, sets)
    return { engine, keys: await unlockKeys(engine, master, Date.now) }
  })
}

/** How far a clock is behind the newest entry of the store; negative if it is not. */
export async function behindStoreMs(engine: Engine, nowMs: number): Promise<number> {
  return (await newestTime(engine)) - nowMs
}

/** Opens an existing store without its keys. */
export async function findLockedStore(config: Config): Promise<Engine> {
  return orClosed(await findEngine(config, 'read'), async (engine) => {
    if ((await engine.migratedSteps()) === 0) throw noStore(config)
    await requireCurrentSchema(engine)
    return engine
  })
}

/** Opens the database of a store that is to be restored, without creating anything in it. */
export async function openTarget(config: Config): Promise<Engine> {
  return orClosed(await makeEngine(config), async (engine) => {
    await refuseOnError(engine, () => engine.checkDurability())
    return engine
  })
}

/** Opens another store with the keys of this one, only to read it. */
export async function findOtherStore(config: Config, master: MasterAccess): Promise<OpenStore> {
  return orClosed(await findEngine(config, 'read'), async (engine) => {
    await requireCurrentSchema(engine)
    return { engine, keys: await refuseWrongKeys(() => master.openKeys(engine)) }
  })
}

/** Returns a function that removes what a refused restore has made in the data folder. A store that holds tables stays. */
export function beforeStore({ databaseUrl, dataDir }: Config): () => void {
  const path = join(dataDir, databaseFile)
  if (databaseUrl !== undefined || existsSync(path)) return () => undefined
  const made = missingFolders(dataDir)
  return () => {
    if (!existsSync(path) || inspectFile(path) !== 'nothing') return
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true })
    try {
      for (const folder of made) rmdirSync(folder)
    } catch {
      // Something else was put there.
    }
  }
}

/** The folder and those above it that do not exist, the deepest first. */
function missingFolders(path: string): string[] {
  return existsSync(path) ? [] : [path, ...missingFolders(dirname(path))]
}

async function orClosed<Result>(engine: Engine, work: (engine: Engine) => Promise<Result>): Promise<Result> {
  try {
    return await work(engine)
  } catch (error) {
    await engine.close().catch(() => undefined)
    throw error
  }
}

/** For backups, which hold the wrapped master key of their store. */
export async function findMasterAccess(config: Config, wrapped: string | null): Promise<MasterAccess> {
  const stored = { list: async () => (wrapped === null ? [] : [wrapped]), saveIfAbsent: async () => wrapped ?? '' }
  return masterAccess(await findMaster(config, stored, false), Date.now)
}

async function findMaster(
  config: Config,
  wrapped: WrappedMaster,
  mayCreate: boolean,
  shareSets: readonly ShareSet[] = [],
): Promise<KeyObject> {
  const master = await loadMasterKey(config.masterKey, {
    wrapped,
    outbound: createOutbound({ allow: config.outboundAllow }),
    env: process.env,
    mayCreate,
    shareSets,
  })
  return masterWrapKey(master)
}

/** After a finished move, the former source can only fail, with a reason that would mislead. */
async function refuseFormerCustody({ masterKey }: Config, engine: Engine): Promise<void> {
  const { current, former } = await findCustody(engine)
  if (!current || former.length > 0 || isSameCustody(current.kind, masterKey.kind)) return
  const day = new Date(current.movedAt).toISOString().slice(0, 10)
  throw new StartError(
    `The master key of this store was moved to ${custodyName(current.kind)} on ${day}: set ${masterKeySettings[current.kind]}, and no other source.`,
  )
}

function unlockKeys(engine: Engine, master: KeyObject, now: () => number): Promise<Keys> {
  return refuseWrongKeys(() => openKeys(engine, master, now))
}

async function refuseWrongKeys<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (isFailure(error, 'keysChanged')) {
      throw new StartError(
        'The keys in this database were changed outside of Coffer: restore root_key, signing_key and instance from a backup.',
      )
    }
    if (!isFailure(error, 'integrity')) throw error
    throw new StartError(
      'The master key does not match this database: start with the key that it was created with, or that it was moved to since.',
    )
  }
}

function noStore({ databaseUrl, dataDir }: Config): StartError {
  return new StartError(
    databaseUrl === undefined
      ? `There is no store in ${dataDir}: check COFFER_DATA_DIR.`
      : 'There is no store in the database of COFFER_DATABASE_URL: check that it is the right one.',
  )
}

function makeKeyFolder(path: string): void {
  try {
    makeFolder(path)
  } catch (error) {
    throw new StartError(
      `The folder ${path} for the master key cannot be created (${codeOf(error)}): check COFFER_MASTER_KEY_FILE.`,
    )
  }
}

/** Everybody may replace the database or the key. A folder that a group may write to works, and `doctor` names it. */
function refuseSharedFolder(config: Config): void {
  const { dataDir } = config
  if (!isFolderShared(config)) return
  throw new StartError(
    `Every user of this machine may write to the data folder ${dataDir}, and so replace what is in it: run "chmod o-w ${dataDir}".`,
  )
}

/** On PostgreSQL, with the key elsewhere, nothing is kept there: Kubernetes opens an empty volume to everybody in the pod. */
export function isFolderShared({ dataDir, databaseUrl, masterKey }: Config): boolean {
  const isUsed = databaseUrl === undefined || (masterKey.kind === 'file' && dirname(masterKey.path) === dataDir)
  const status = isUsed ? statSync(dataDir, { throwIfNoEntry: false }) : undefined
  return status?.isDirectory() === true && (status.mode & 0o002) !== 0
}

async function makeEngine(config: Config): Promise<Engine> {
  if (config.databaseUrl !== undefined) return connect(config.databaseUrl)
  return onFile(config, (path) => {
    makeFolder(config.dataDir)
    requireOurs(path)
    const engine = openSqlite(path)
    const file = realpathSync(path)
    for (const one of [file, `${file}-wal`, `${file}-shm`]) chmodSync(one, 0o600)
    return engine
  })
}

async function findEngine(config: Config, access: OpenMode): Promise<Engine> {
  if (config.databaseUrl !== undefined) return connect(config.databaseUrl)
  return onFile(config, (path) => {
    if (requireOurs(path) === 'nothing') throw noStore(config)
    return openSqlite(path, access)
  })
}

async function connect(url: string): Promise<Engine> {
  const problem = parameterProblem(url)
  if (problem !== undefined) throw new StartError(`The database cannot be used: ${problem}.`)
  // Loaded on demand: the driver takes time and memory.
  const { openPostgres } = await import('./store/engine/postgres.ts')
  return openPostgres(url)
}

function onFile<Result>(config: Config, work: (path: string) => Result): Result {
  try {
    return work(join(config.dataDir, databaseFile))
  } catch (error) {
    if (error instanceof StartError) throw error
    throw fileError(config, error)
  }
}

/** Explains a problem with the SQLite file, its folder or its disk. */
export const fileError = ({ dataDir }: Config, error: unknown) =>
  new StartError(`The database in ${dataDir} ${fileTrouble(error) ?? folderTrouble(codeOf(error))}`)

function folderTrouble(code: string): string {
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return `cannot be created, since part of the path is not a folder (${code}): check COFFER_DATA_DIR.`
  if (code === 'ENOENT')
    return `cannot be created, since a symbolic link in the path is broken, or nothing can be made there (${code}): check COFFER_DATA_DIR.`
  if (code === 'EROFS') return `cannot be written, since its disk is mounted read-only (${code}): mount it for writing.`
  return `cannot be opened (${code}): check that the folder and its files belong to the user of this process.`
}

/** Refuses another program's database, so that our tables are never created in it. */
function requireOurs(path: string): 'nothing' | 'store' {
  const content = inspectFile(path)
  if (content !== 'foreign') return content
  throw new StartError(`The database ${path} belongs to another program: it has tables, and none of them is Coffer's.`)
}

/** Turns an error of the SQLite file or its disk, at any time during the work, into one sentence for the operator. */
export async function explainFileError<Result>(config: Config, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const trouble = config.databaseUrl === undefined ? fileTrouble(error) : undefined
    throw trouble === undefined ? error : new StartError(`The database in ${config.dataDir} ${trouble}`)
  }
}

async function refuseOnError(engine: Engine, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isFailure(error) && (engine.kind === 'sqlite' || error.code === 'internal')) throw error
    // Only our own errors have neither a code nor a cause.
    const isOurs = error instanceof Error && !('code' in error) && error.cause === undefined
    const isServers = engine.kind === 'postgres' && !isOurs
    const reason = isServers ? `${postgresRefusal(error)}.` : error instanceof Error ? error.message : 'unknown error'
    throw new StartError(`The database cannot be used: ${reason}`)
  }
}
