/** `restore`: loads a backup into an empty store, and says what a return to an earlier state brings back. */
import { parseArgs } from 'node:util'
import { restoredServices } from '../app.ts'
import { type Config, readConfig } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { type BackupFile, openBackupFile } from '../domain/backup/file.ts'
import { finishMove, type Restored, restoreBackup } from '../domain/backup/restore.ts'
import { endRevivedState, type Revival, type TokenFinding } from '../domain/backup/revived-state.ts'
import { asOperator } from '../domain/context.ts'
import { dayMs, hourMs, minuteMs } from '../domain/time.ts'
import { createLog } from '../log.ts'
import {
  beforeStore,
  explainFileError,
  findMasterAccess,
  findOtherStore,
  type OpenStore,
  openTarget,
} from '../open-store.ts'
import type { Engine } from '../store/engine/sql.ts'
import type { MasterAccess } from '../store/key/key.ts'
import { scratchFolder, withFile } from './backup-place.ts'
import { showProgress } from './progress.ts'
import type { Print } from './with-operator.ts'

type Env = Readonly<Record<string, string | undefined>>
type Wish = {
  readonly file: string
  readonly move: boolean
  /** With `move`: whatever the age of the backup. */
  readonly evenIfOld: boolean
  readonly revokeTokens: boolean
  readonly sinceStore: string | undefined
}

export async function restore(env: Env, args: readonly string[], print: Print): Promise<number> {
  const wish = readWish(args)
  const config = readConfig(env)
  return explainFileError(config, () =>
    withFile(config, wish.file, scratchFolder(config), (path) => restoreFile(config, path, wish, print)),
  )
}

async function restoreFile(config: Config, path: string, wish: Wish, print: Print): Promise<number> {
  const file = await openBackupFile(path)
  try {
    refuseOldMove(file.header.createdAt, wish)
    const tidy = beforeStore(config)
    try {
      const engine = await openTarget(config)
      try {
        return await restoreInto(engine, config, file, wish, print)
      } finally {
        await engine.close()
      }
    } catch (error) {
      tidy()
      throw error
    }
  } finally {
    await file.close()
  }
}

/** A move takes minutes. With an older file it is rather a return to the past, which must not revive what was ended since. */
const maxMoveAgeMs = hourMs

function refuseOldMove(createdAt: number, { move, evenIfOld }: Wish): void {
  if (!move || evenIfOld || Date.now() - createdAt <= maxMoveAgeMs) return
  throw new ConfigError(
    `The backup is ${ageOf(createdAt)} old, and --move would bring back sessions, tokens, shares and syncs that were ended since: make a new backup of the stopped store, restore without --move, or add --even-if-old.`,
  )
}

function ageOf(createdAt: number): string {
  const ms = Math.max(0, Date.now() - createdAt)
  const [unit, name] = ms < 2 * hourMs ? [minuteMs, 'minutes'] : ms < 2 * dayMs ? [hourMs, 'hours'] : [dayMs, 'days']
  return `${Math.floor(ms / unit)} ${name}`
}

async function restoreInto(
  engine: Engine,
  config: Config,
  file: BackupFile,
  wish: Wish,
  print: Print,
): Promise<number> {
  const master = await findMasterAccess(config, file.header.wrappedMaster)
  // Opened first: a mistyped place must not be found out after an hour.
  const { sinceStore } = wish
  const since = sinceStore === undefined ? undefined : await findOtherStore(placeOf(config, sinceStore), master)
  try {
    return await restoreFrom({ engine, config, file, master, since }, wish, print)
  } finally {
    await since?.engine.close()
  }
}

type Parts = {
  readonly engine: Engine
  readonly config: Config
  readonly file: BackupFile
  readonly master: MasterAccess
  /** The store that was lost, if it can still be read. */
  readonly since: OpenStore | undefined
}

async function restoreFrom(parts: Parts, wish: Wish, print: Print): Promise<number> {
  const { engine, file, master } = parts
  const restored = await showProgress(print, (onProgress) => restoreBackup(engine, file, master, { onProgress }))
  const { createdAt, tables, digest } = restored.manifest
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const at = new Date(createdAt).toISOString()
  if (wish.move) {
    await finishMove(engine, restored.mark)
    print(`Moved ${rows} rows of ${at} to this store (${engine.kind}), digest ${digest}. Nothing else was changed.\n`)
    print(
      `The backup is ${ageOf(createdAt)} old: sessions, tokens, shares and syncs of then are alive, ended ones too.\n`,
    )
    print('Do not start the old store again: two stores that go on from the same state cannot be joined.\n')
    return 0
  }
  const revival = await reviewRestored(parts, restored, wish.revokeTokens, print)
  print(`Restored ${rows} rows of ${at} into this store (${engine.kind}), digest ${digest}.\n`)
  printRevival(revival, print)
  return 0
}

async function reviewRestored(
  { engine, config, since }: Parts,
  restored: Restored,
  revokeTokens: boolean,
  print: Print,
): Promise<Revival> {
  const services = await restoredServices(config, { engine, keys: restored.keys }, createLog('warn'))
  try {
    const onToken = (finding: TokenFinding) => print(describeToken(finding))
    return await endRevivedState(asOperator(services), restored, { revokeTokens, since, onToken })
  } finally {
    await services.mail?.close()
  }
}

const isUrl = (place: string) => /^postgres(ql)?:\/\//.test(place)

function placeOf(config: Config, place: string): Config {
  return isUrl(place) ? { ...config, databaseUrl: place } : { ...config, databaseUrl: undefined, dataDir: place }
}

const states: Record<TokenFinding['kind'], string> = {
  valid: 'valid at the time of the backup, and valid again: revoke it if it was revoked since',
  revoked: 'revoked by this restore',
  lost: 'made since the backup, and lost: make another',
}

/** Names are other people's text: escaped, so that they cannot control the terminal. */
function describeToken({ kind, workspace, token }: TokenFinding): string {
  const { name, prefix, createdAt, lastUsedAt } = token
  const used = lastUsedAt === null ? 'never used' : `last used ${new Date(lastUsedAt).toISOString()}`
  const made = new Date(createdAt).toISOString()
  return `  token  ${workspace}: ${JSON.stringify(name)} ${prefix}… made ${made}, ${used}: ${states[kind]}\n`
}

function printRevival({ sessions, syncs, shares, revokedTokens }: Revival, print: Print): void {
  print(`Ended ${sessions} sessions and ${shares} shares, paused ${syncs} syncs, revoked ${revokedTokens} tokens.\n`)
  print('Everything since the backup is lost, removals too: check members, invites, identities and tokens before\n')
  print('you start the service, then resume the syncs.\n')
  print('Passwords, second factors, and root and signing keys are as they were, also those that were replaced since:\n')
  print('if that was because of a leak, replace them again; for the keys, run "keys rotate-root".\n')
}

const usage =
  '"restore" takes one file, --move (with --even-if-old), --revoke-tokens and --since-store <folder or URL of the old store>.'

function readWish(args: readonly string[]): Wish {
  const flag = { type: 'boolean' } as const
  try {
    const options = {
      move: flag,
      'even-if-old': flag,
      'revoke-tokens': flag,
      'since-store': { type: 'string' },
    } as const
    const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options })
    const { move = false, 'even-if-old': evenIfOld = false, 'revoke-tokens': revokeTokens = false } = values
    const sinceStore = values['since-store']
    const [file, ...more] = positionals
    const isMixed = move ? revokeTokens || sinceStore !== undefined : evenIfOld
    if (file && more.length === 0 && !isMixed) return { file, move, evenIfOld, revokeTokens, sinceStore }
  } catch {
    // An unknown option: explained below.
  }
  throw new ConfigError(`${usage} --move goes with none of the others.`)
}
