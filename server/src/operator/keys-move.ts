/** `keys move`: puts the store under a new master key from another source, while the service runs. */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Config, readConfig, withSettingsFile } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import type { Context } from '../domain/context.ts'
import { describeCustody, finishMove, isMasterKey, moveMasterKey } from '../domain/custody.ts'
import { installation } from '../installation.ts'
import { custodyName } from '../master-key/custody.ts'
import { MasterKeyError } from '../master-key/error.ts'
import { loadMasterKey, type MasterKeySource, makeMasterKey } from '../master-key/master-key.ts'
import { isSourceKind, masterKeySettings, readSource } from '../master-key/read-source.ts'
import { wrappedMaster } from '../store/instance.ts'
import { splitKeys } from './keys-split.ts'
import { type Print, withOperator } from './with-operator.ts'

type Environment = Readonly<Record<string, string | undefined>>
type Target = { readonly source: MasterKeySource; readonly place: string }

const usage =
  'keys move --to <kind> <place>, with file, command, aws-kms, google-kms, azure-key-vault or transit as the kind; keys move --to shares; or keys move --finish'

export async function moveKeys(
  env: Environment,
  args: readonly string[],
  print: Print,
  settleMs?: number,
): Promise<number> {
  // Shares have no place: the same as keys split, with its options.
  if (args[0] === '--to' && args[1] === 'shares') return splitKeys(env, args.slice(2), print)
  const { values, positionals } = readArguments(args)
  const config = readConfig(env)
  if (values.finish) return withOperator(config, 'write', (ctx) => finish(ctx, print, settleMs))
  const target = readTarget(values.to ?? '', positionals[0] ?? '', withSettingsFile(env))
  return withOperator(config, 'write', (ctx) => move(ctx, target, print))
}

function readArguments(args: readonly string[]) {
  try {
    const options = { to: { type: 'string' }, finish: { type: 'boolean' } } as const
    const parsed = parseArgs({ args: [...args], allowPositionals: true, options })
    if (parsed.positionals.length === (parsed.values.finish ? 0 : 1)) return parsed
  } catch {
    // The parser's own message quotes what was typed.
  }
  throw new ConfigError(`Not a move: write ${usage}.`)
}

/** The place is what the setting of that kind holds afterwards. */
function readTarget(kind: string, given: string, env: Environment): Target {
  if (!isSourceKind(kind) || kind === 'value' || kind === 'shares')
    throw new ConfigError(`Not a place for a key: write ${usage}.`)
  // A node may be started in another folder.
  const place = kind === 'file' ? resolve(given) : given
  return { source: readSource(kind, place, (name) => env[name]?.trim() || undefined), place }
}

async function move(ctx: Context, { source, place }: Target, print: Print): Promise<number> {
  const to = custodyName(source.kind)
  if (await isThere(ctx, source)) print(`The master key is in ${to} already.\n`)
  else {
    print(
      `Moving the master key to ${to}; the service can keep running. It is safe to stop this command: run it again.\n`,
    )
    const { key, wrapped } = await makeMasterKey(source, { outbound: ctx.outbound, env: process.env })
    if (isMasterKey(ctx, Uint8Array.from(key)))
      throw new ConfigError(`${sentence(to)} holds the key that is in use: name another place.`)
    print('  made a new master key, and got it back from its source\n')
    await moveMasterKey(ctx, { key, wrapped, custody: { kind: source.kind, movedAt: ctx.now() } })
    print('  wrapped all root keys with it\n')
  }
  return sayWhatIsNext(ctx.config, { source, place }, print)
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** True after a move that was killed before it could say so. Once it is finished, the same place gets a new key. */
async function isThere(ctx: Context, source: MasterKeySource): Promise<boolean> {
  const { current, former } = await describeCustody(ctx)
  if (current?.kind !== source.kind || former.length === 0) return false
  const options = { outbound: ctx.outbound, env: process.env, mayCreate: false }
  try {
    return isMasterKey(ctx, await loadMasterKey(source, { ...options, wrapped: wrappedMaster(ctx.engine, ctx.now) }))
  } catch (error) {
    if (error instanceof MasterKeyError) return false
    throw error
  }
}

function sayWhatIsNext({ masterKey }: Config, { source, place }: Target, print: Print): number {
  const [before, after] = [masterKeySettings[masterKey.kind], masterKeySettings[source.kind]]
  const removal = before === after ? '' : ` and remove ${before}`
  print(`Now, on every node:
  1. Set ${after}=${place}${removal}.
${source.kind === 'file' ? `     Copy the file ${place} to machines that do not have it.\n` : ''}  2. Restart the node.
Then, once: ${installation.command} keys move --finish
Until then the former key still opens this store. Running nodes go on meanwhile, and start with either setting.
`)
  return 0
}

async function finish(ctx: Context, print: Print, settleMs?: number): Promise<number> {
  const { current } = await describeCustody(ctx)
  if (ctx.keys.isHandedOver && current?.split && ctx.config.masterKey.kind === 'shares') {
    throw new ConfigError(`These shares are of a former set: run this again with shares of set ${current.split.set}.`)
  }
  if (ctx.keys.isHandedOver && current) {
    throw new ConfigError(
      `These settings still name the former master key: set ${masterKeySettings[current.kind]}, restart every node, then run this again.`,
    )
  }
  const ended = await finishMove(ctx, settleMs)
  if (ended === 0) return print('There is no move to finish.\n')
  const [which, it] = ended === 1 ? ['the former master key opens', 'it'] : [`${ended} former master keys open`, 'them']
  print(`Done: ${which} nothing any more. Remove ${it} where you kept ${it}.
Backups from before the move still need ${it}. If others may know ${it}, run keys rotate-root too.
`)
  return 0
}
