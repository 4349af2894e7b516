/** `backup …`: writes a backup while the service runs, and proves that backups can be restored. */
import { existsSync } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { type Config, readConfig } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { syncFolder } from '../domain/backup/file.ts'
import type { BackupProgress, Manifest } from '../domain/backup/manifest.ts'
import type { MarkerContext } from '../domain/backup/marker.ts'
import { notVerified, type Verdict, verifyBackup } from '../domain/backup/verify.ts'
import { writeBackup } from '../domain/backup/write.ts'
import { findMasterAccess } from '../open-store.ts'
import type { MasterAccess } from '../store/key/key.ts'
import { type NewFile, scratchFolder, withFile, withNewFile } from './backup-place.ts'
import { showProgress } from './progress.ts'
import { type Print, withOperator } from './with-operator.ts'

type Env = Readonly<Record<string, string | undefined>>

export async function backUp(env: Env, args: readonly string[], print: Print): Promise<number> {
  const { file: place, noVerify, scratch } = readWish('backup', args)
  const config = readConfig(env)
  const folder = scratchFolder(config, scratch)
  return withNewFile(config, place, folder, (made) =>
    noVerify ? writeOnly(config, made, print) : writeVerified(config, made, folder, print),
  )
}

async function writeOnly(config: Config, { file, shown, store }: NewFile, print: Print): Promise<number> {
  refuseExisting(file)
  const { manifest } = await showProgress(print, (onProgress) => write(config, file, onProgress))
  await store(undefined)
  print(`Wrote ${shown}: ${await describe(file, manifest)}.\n`)
  print('It is not verified, so do not rely on it: run "backup verify" on it.\n')
  return 0
}

/** A file with the name that was asked for has been verified. */
async function writeVerified(
  config: Config,
  { file, shown, store }: NewFile,
  folder: string,
  print: Print,
): Promise<number> {
  refuseExisting(file)
  const unverified = `${file}.unverified`
  const { manifest, marker } = await showProgress(print, (onProgress) => write(config, unverified, onProgress))
  try {
    // The settings may name a former master key until a move is finished.
    const unlock = async () => marker.keys.master
    const verdict = await showProgress(print, (onProgress) => verify(unverified, unlock, folder, onProgress))
    if (!verdict.ok) {
      printProblems(verdict, print)
      print(`This is no backup, and ${shown} was not made: run "doctor", then make another.\n`)
      throw notVerified(verdict)
    }
    await rename(unverified, file)
  } finally {
    await rm(unverified, { force: true })
  }
  await syncFolder(dirname(file))
  await store(marker)
  print(`Wrote and verified ${shown}: ${await describe(file, manifest)}.\n`)
  return 0
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new ConfigError(`${file} exists already: choose another name, or move it away.`)
}

type Written = { readonly manifest: Manifest; readonly marker: MarkerContext }

async function write(config: Config, file: string, onProgress: (progress: BackupProgress) => void): Promise<Written> {
  let written: Written | undefined
  await withOperator(config, 'read', async (ctx) => {
    const { keys, version, now } = ctx
    written = { manifest: await writeBackup(ctx, file, { onProgress }), marker: { keys, version, now } }
    return 0
  })
  if (!written) throw new Error('no manifest was written')
  return written
}

export async function verifyFile(env: Env, args: readonly string[], print: Print): Promise<number> {
  const { file: place, scratch } = readWish('backup verify', args)
  const config = readConfig(env)
  const folder = scratchFolder(config, scratch)
  return withFile(config, place, folder, async (file) => {
    const verdict = await showProgress(print, (onProgress) =>
      verify(file, ({ wrappedMaster }) => findMasterAccess(config, wrappedMaster), folder, onProgress),
    )
    if (verdict.ok && verdict.manifest) {
      print(`  ok     ${place}: ${await describe(file, verdict.manifest)}\n`)
      return 0
    }
    printProblems(verdict, print)
    return 1
  })
}

type Unlock = (header: { readonly wrappedMaster: string | null }) => Promise<MasterAccess>

function verify(
  file: string,
  unlock: Unlock,
  folder: string,
  onProgress: (progress: BackupProgress) => void,
): Promise<Verdict> {
  return verifyBackup(file, unlock, { scratchFolder: folder, onProgress })
}

function printProblems({ problems }: Verdict, print: Print): void {
  for (const problem of problems) print(`  wrong  ${problem}\n`)
}

async function describe(file: string, { createdAt, version, tables, digest }: Manifest): Promise<string> {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const { size } = await stat(file)
  return `${rows} rows, ${size} bytes, of ${new Date(createdAt).toISOString()}, by Coffer ${version}, digest ${digest}`
}

function readWish(command: string, args: readonly string[]) {
  const usage = `"${command}" takes one file or s3://…, ${command === 'backup' ? '--no-verify ' : ''}and --scratch <folder>.`
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        scratch: { type: 'string' },
        ...(command === 'backup' ? { 'no-verify': { type: 'boolean' } as const } : {}),
      },
    })
    const [file, ...more] = positionals
    if (!file || more.length > 0) throw new ConfigError(usage)
    return { file, scratch: values.scratch, noVerify: values['no-verify'] === true }
  } catch {
    throw new ConfigError(usage)
  }
}
