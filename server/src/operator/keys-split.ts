/** `keys split`: moves the store to a new master key that exists only in shares. */
import { randomBytes } from 'node:crypto'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readConfig } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { syncFolder } from '../domain/backup/file.ts'
import type { Context } from '../domain/context.ts'
import { moveMasterKey } from '../domain/custody.ts'
import { codeOf } from '../error-code.ts'
import { installation } from '../installation.ts'
import { makeFolder } from '../make-folder.ts'
import { masterKeySettings } from '../master-key/read-source.ts'
import { type ShareSet, splitKey } from '../master-key/share.ts'
import { type Print, withOperator } from './with-operator.ts'

type Environment = Readonly<Record<string, string | undefined>>
type Options = { readonly count: number; readonly threshold: number; readonly out: string | undefined }

const usage = 'keys split [--shares 5] [--threshold 3] [--out <folder>]'

export async function splitKeys(env: Environment, args: readonly string[], print: Print): Promise<number> {
  const options = readOptions(args)
  const config = readConfig(env)
  if (options.out === undefined && !process.stdout.isTTY) {
    throw new ConfigError('Shares are shown at a terminal only: run this at one, or write them to files with --out.')
  }
  if (options.out !== undefined) await requireEmptyFolder(options.out)
  return withOperator(config, 'write', (ctx) => split(ctx, options, print))
}

function readOptions(args: readonly string[]): Options {
  try {
    const text = { type: 'string' } as const
    const { values } = parseArgs({ args: [...args], options: { shares: text, threshold: text, out: text } })
    const [count, threshold] = [Number(values.shares ?? 5), Number(values.threshold ?? 3)]
    if (Number.isInteger(count) && Number.isInteger(threshold)) return { count, threshold, out: values.out }
  } catch {
    // The parser's own message quotes what was typed.
  }
  throw new ConfigError(`Not a split: write ${usage}.`)
}

async function requireEmptyFolder(path: string): Promise<void> {
  try {
    makeFolder(path)
    if ((await readdir(path)).length === 0) return
  } catch (error) {
    throw new ConfigError(`The folder ${path} cannot be used (${codeOf(error)}): choose another with --out.`)
  }
  throw new ConfigError(`The folder ${path} is not empty: choose another with --out.`)
}

async function split(ctx: Context, { count, threshold, out }: Options, print: Print): Promise<number> {
  const key = Uint8Array.from(randomBytes(32))
  const { set, texts } = await splitKey(key, { count, threshold })
  if (out === undefined) print(`${texts.join('\n\n')}\n\n`)
  else await writeShares(out, set, texts)
  // Shares come first: killed in between, they open nothing, and the store is as before.
  await moveMasterKey(ctx, { key, wrapped: undefined, custody: { kind: 'shares', movedAt: ctx.now(), split: set } })
  const where = out === undefined ? 'above' : `in ${out}`
  const before = ctx.config.masterKey.kind
  print(`The master key is split: ${count} shares of set ${set.set} are ${where}, and any ${threshold} of them open this store.
They are not shown again. Give each to another person, and keep none on this machine.
Now, on every node:
  1. Set ${masterKeySettings.shares}=on${before === 'shares' ? '' : ` and remove ${masterKeySettings[before]}`}.
  2. Restart the node. It starts sealed: ${installation.command} keys unseal
Then, once: ${installation.command} keys move --finish
Until then the former key still opens this store.${before === 'file' ? ' Afterwards, remove its file.' : ''}
`)
  return 0
}

/** One file each, for its owner alone. On the disk before the key is in use. */
async function writeShares(folder: string, { set, count }: ShareSet, texts: readonly string[]): Promise<void> {
  try {
    for (const [at, text] of texts.entries()) {
      await writeShare(join(folder, `coffer-share-${set}-${at + 1}-of-${count}.txt`), text)
    }
    await syncFolder(folder)
  } catch (error) {
    const problem = `The shares cannot be written to ${folder} (${codeOf(error)})`
    throw new ConfigError(`${problem}: the master key is as before; choose another folder with --out.`)
  }
}

async function writeShare(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(`${text}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
