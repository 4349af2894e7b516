/** Permissions of files, and where the master key lies. */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../../config.ts'
import { installation } from '../../installation.ts'
import { databaseFile, isFolderShared } from '../../open-store.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const othersMode = 0o077
const everybodyMode = 0o007

type Environment = Readonly<Record<string, string | undefined>>

export function fileChecks(config: Config, env: Environment): Check[] {
  const why = 'Other users of the machine may read what the service stores.'
  const fix = 'remove their permissions with chmod.'
  return [
    { name: 'permissions', why, fix, run: () => checkPermissions(config, env) },
    { name: 'master key', why: 'The key opens everything.', fix: 'see docs/keys.md.', run: () => checkKey(config) },
  ]
}

async function checkPermissions(config: Config, env: Environment): Promise<readonly Finding[]> {
  const { dataDir, databaseUrl, masterKey } = config
  const settingsFile = env.COFFER_CONFIG?.trim()
  const isFolderOpen = await isOpen(dataDir, othersMode)
  const findings = [
    databaseUrl === undefined && isFolderOpen && (await isOpen(join(dataDir, databaseFile), othersMode))
      ? wrong(
          `other users can open ${databaseFile}`,
          'Names, addresses and sealed values are in it.',
          `run "chmod 600 ${join(dataDir, databaseFile)}".`,
        )
      : undefined,
    isFolderShared(config)
      ? wrong(
          `every user may write to the folder ${dataDir}`,
          'They may replace the database and the key, so the service does not start.',
          `run "chmod o-w ${dataDir}".`,
        )
      : undefined,
    isFolderOpen && !(await isPodVolume(dataDir))
      ? note(
          `other users can open the folder ${dataDir}`,
          'They see its files, and those that are made there later.',
          `run "chmod 700 ${dataDir}".`,
        )
      : undefined,
    masterKey.kind === 'file' && (await isOpen(masterKey.path, othersMode))
      ? wrong(
          `other users can open the file of the master key, ${masterKey.path}`,
          'The key opens everything, so the service does not start.',
          `run "chmod 600 ${masterKey.path}".`,
        )
      : undefined,
    settingsFile !== undefined && settingsFile !== '' && (await isOpen(settingsFile, everybodyMode))
      ? note(
          `every user can read ${settingsFile}`,
          'Settings may hold passwords of the database, of Redis and of the mail server.',
          `run "chmod 640 ${settingsFile}".`,
        )
      : undefined,
  ].filter((finding) => finding !== undefined)
  return findings.length === 0 ? [ok('other users cannot open the files of the service')] : findings
}

async function checkKey({ masterKey, databaseUrl, dataDir }: Config): Promise<Finding> {
  if (masterKey.kind !== 'file') return ok(`from ${masterKey.kind}`)
  const [key, store] = await Promise.all([deviceOf(masterKey.path), deviceOf(join(dataDir, databaseFile))])
  if (key === undefined && (databaseUrl !== undefined || store !== undefined)) {
    return note(
      `its file ${masterKey.path} is missing`,
      'No other key opens what is stored.',
      'restore the file, or correct COFFER_MASTER_KEY_FILE; only the first start of a new store makes one.',
    )
  }
  if (key === undefined) return ok('its file is made at the first start')
  if (databaseUrl !== undefined || key !== store) return ok('not on the disk of the database')
  return note(
    'on the same disk as the database',
    'Whoever copies the disk, or a backup of all of it, can read every secret.',
    `run "${installation.command} keys move --to file <path on another disk>" or move it to a KMS, and keep a copy of the key elsewhere.`,
  )
}

/** Kubernetes opens a volume to the group of its pod with fsGroup, and only the pod has it. It would undo a chmod. */
async function isPodVolume(path: string): Promise<boolean> {
  const status = await find(path)
  return status !== undefined && (status.mode & 0o2070) === 0o2070 && status.gid === process.getgid?.()
}

const isOpen = async (path: string, mode: number) => (((await find(path))?.mode ?? 0) & mode) !== 0
const deviceOf = async (path: string) => (await find(path))?.dev
const find = (path: string) => stat(path).catch(() => undefined)
