/**
 * `audit …`: writes the audit trail to archives, removes archived entries, and verifies archives without the service.
 */
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readConfig } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { noteArchive, writeArchive } from '../domain/audit/archive/archive.ts'
import { type CheckedArchive, checkArchive } from '../domain/audit/archive/check.ts'
import { removeArchived, retentionStart } from '../domain/audit/archive/retention.ts'
import { systemChain } from '../domain/audit/event.ts'
import type { Context } from '../domain/context.ts'
import { codeOf } from '../error-code.ts'
import { Failure } from '../failure.ts'
import { type Print, withOperator } from './with-operator.ts'

type Wish = { readonly folder: string; readonly beforeMs: number | undefined; readonly workspace: string | undefined }

export async function archiveAudit(
  env: Record<string, string | undefined>,
  args: readonly string[],
  print: Print,
): Promise<number> {
  const wish = readWish(args)
  return withOperator(readConfig(env), 'write', async (ctx) => {
    let worst = 0
    let hasWork = false
    for await (const chain of listChains(ctx, wish.workspace)) {
      try {
        if (await archiveChain(ctx, chain, wish, print)) hasWork = true
      } catch (error) {
        if (!(error instanceof Failure)) throw error
        print(`  wrong  ${await nameOf(ctx, chain)}: ${error.message}\n`)
        worst = 1
      }
    }
    if (!hasWork && worst === 0) print('  ok     there is nothing to archive\n')
    return worst
  })
}

function readWish(args: readonly string[]): Wish {
  const { to, before, workspace } = readOptions(args)
  if (to === undefined) throw new ConfigError('Set the folder for the archives with --to.')
  const beforeMs = before === undefined ? undefined : Date.parse(before)
  if (beforeMs !== undefined && (Number.isNaN(beforeMs) || !/^\d{4}-\d\d-\d\d/.test(before ?? ''))) {
    throw new ConfigError('--before must be a date such as 2026-01-31, or an ISO 8601 date and time.')
  }
  return { folder: to, beforeMs, workspace }
}

function readOptions(args: readonly string[]) {
  try {
    const text = { type: 'string' } as const
    return parseArgs({ args: [...args], options: { to: text, before: text, workspace: text } }).values
  } catch {
    throw new ConfigError('"audit archive" takes --to <folder>, --before <date> and --workspace <slug or id>.')
  }
}

async function* listChains(ctx: Context, workspace: string | undefined): AsyncGenerator<string> {
  if (workspace !== undefined) {
    const id = await ctx.store.workspaces.findIdForAnybody(workspace)
    if (id === undefined) throw new Failure('notFound', `There is no workspace "${workspace}".`)
    yield id
    return
  }
  let chain = await ctx.store.audit.findChainAfter('')
  while (chain !== undefined) {
    yield chain
    chain = await ctx.store.audit.findChainAfter(chain)
  }
}

async function nameOf(ctx: Context, chain: string): Promise<string> {
  if (chain === systemChain) return 'system'
  return (await ctx.store.workspaces.find(chain))?.slug ?? `${JSON.stringify(chain)} (deleted)`
}

/** Returns whether there was anything to archive or to remove. */
async function archiveChain(ctx: Context, chain: string, { folder, beforeMs }: Wish, print: Print): Promise<boolean> {
  const name = await nameOf(ctx, chain)
  let hasArchived = false
  const file = createArchiveFile(folder)
  try {
    const archived = await writeArchive(ctx, chain, beforeMs ?? Number.POSITIVE_INFINITY, file.write)
    if (archived) {
      const { after, mark } = archived
      // Equal names mean equal contents, since the hash covers every entry.
      const path = join(
        folder,
        `audit-${chain}-${after.sequence + 1}-${mark.sequence}-${mark.hash.slice(0, 16)}.ndjson`,
      )
      await file.keep(path)
      await noteArchive(ctx, chain, archived)
      hasArchived = true
      print(`  ok     ${name}: entries ${after.sequence + 1} to ${mark.sequence} are in ${path}\n`)
    }
  } finally {
    await file.discard()
  }
  const removeBefore = beforeMs ?? retentionStart(ctx)
  const removed = removeBefore === undefined ? 0 : await removeArchived(ctx, chain, removeBefore)
  if (removed > 0) print(`  ok     ${name}: ${removed} archived entries were removed\n`)
  return hasArchived || removed > 0
}

const maxBufferLength = 1024 * 1024

/** A file that appears under its final name only when it is complete and on disk. */
function createArchiveFile(folder: string) {
  const draft = join(folder, `.audit-${randomBytes(8).toString('hex')}.part`)
  let handle: FileHandle | undefined
  let buffer = ''

  async function flush(): Promise<FileHandle> {
    handle ??= await open(draft, 'wx', 0o600).catch((error: unknown) => {
      const code = codeOf(error)
      throw new ConfigError(
        code === 'ENOENT'
          ? `--to: the folder ${folder} does not exist.`
          : `--to: cannot create a file in ${folder} (${code}).`,
      )
    })
    await handle.writeFile(buffer)
    buffer = ''
    return handle
  }

  return {
    async write(line: object): Promise<void> {
      buffer += `${JSON.stringify(line)}\n`
      if (buffer.length > maxBufferLength) await flush()
    },
    async keep(path: string): Promise<void> {
      const written = await flush()
      await written.sync()
      await rename(draft, path)
      await syncFolder(folder)
    },
    async discard(): Promise<void> {
      if (!handle) return
      await handle.close()
      await rm(draft, { force: true })
    },
  }
}

/** A rename survives a power failure only once the folder is synced. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function verifyArchives(files: readonly string[], print: Print): Promise<number> {
  let worst = 0
  const wrong = (file: string, problem: string) => {
    print(`  wrong  ${file}: ${problem}\n`)
    worst = 1
  }
  const sound: (CheckedArchive & { readonly file: string })[] = []
  for (const file of files) {
    try {
      sound.push({ ...(await checkArchive(linesOf(file))), file })
    } catch (error) {
      wrong(file, archiveProblem(error))
    }
  }
  let last: CheckedArchive | undefined
  // A shell sorts entry 10 before entry 9, and files of several chains may come in any order.
  for (const archive of sound.sort((a, b) => compareText(a.chain, b.chain) || a.after.sequence - b.after.sequence)) {
    const { file, chain, after, through, keyFingerprint } = archive
    if (last?.chain === chain && (last.through.sequence !== after.sequence || last.through.hash !== after.hash)) {
      wrong(file, `it does not continue the previous file, which ends at entry ${last.through.sequence}.`)
      continue
    }
    last = archive
    const signed = `signed by the key with SHA-256 ${keyFingerprint}`
    print(`  ok     ${file}: entries ${after.sequence + 1} to ${through.sequence} of ${chain}, ${signed}\n`)
  }
  return worst
}

const compareText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** Only errors of the file system have a code; all others are our own text. */
function archiveProblem(error: unknown): string {
  if (error instanceof Error && !('code' in error)) return error.message
  const code = codeOf(error)
  return code === 'ENOENT' ? 'the file does not exist.' : `the file cannot be read (${code}).`
}

/** Node's readline also splits at U+2028 and U+2029, which JSON leaves as they are within a name. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let pieces: string[] = []
  for await (const chunk of createReadStream(file, 'utf8')) {
    const [first = '', ...others] = String(chunk).split('\n')
    pieces.push(first)
    for (const next of others) {
      yield pieces.join('')
      pieces = [next]
    }
  }
  const last = pieces.join('')
  if (last !== '') yield last
}
