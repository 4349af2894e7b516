/**
 * The disk of the scheduled backups gets full: the service goes on, no half backup counts or stays, monitoring tells, and
 * room is all that the next backup needs.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Listening, type Settings, startNode } from '../../test/program.ts'
import { serverMain, startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { ask } from '../load/ask.ts'
import { checkRegisters, createRegisters, type Load, startLoad } from '../load/register-load.ts'
import { register, signIn, verifyTrail } from '../load/tenant.ts'
import { fillDisk, mountSmallDisk, unableToMount } from './small-disk.ts'

const movedClock = join(import.meta.dirname, 'moved-clock.ts')
/** The shortest interval, and the pause after a failed run, each with a second more. */
const [everyMs, retryMs] = [301_000, 61_000]
const limitMs = 900_000
/** A light load: the process that makes a backup has a low priority, and must read and verify everything written. */
const pauseMs = 200
const metricsToken = 'metrics'
const backupName = /^coffer-[\w-]+\.backup$/

export const backupDisk: Case = {
  name: 'backup-disk',
  about: 'the disk of the scheduled backups gets full under load, and is emptied again',
  engines: bothEngines,
  seconds: 50,
  unable: unableToMount,
  async run(trial) {
    const place = await prepare(trial)
    const { service, folder } = place
    const registers = await createRegisters(trial, service.url, await register(service.url))
    const load = startLoad(() => service.url, registers, { pauseMs })
    const counts = { 'times full': 0, 'backups verified': 0, 'acknowledged writes': 0, reads: 0 }
    const due = trial.scale(4)
    await lastResultIs(place, 1)
    while (counts['times full'] < due && !trial.isOver() && load.unexpected.length === 0) {
      const ballast = fillDisk(folder, trial.dice(Math.floor(newestBackup(folder).bytes / 2)))
      await place.jump(everyMs)
      await lastResultIs(place, 0)
      counts['times full']++
      await moreWrites(load)
      for (const what of [...(await findUntold(place)), ...findHalves(folder, ['ballast'])]) trial.report(what)
      rmSync(ballast)
      await place.jump(retryMs)
      await lastResultIs(place, 1)
      for (const what of await findUnverified(place)) trial.report(what)
      // Backups that are no longer kept are removed after the new one counts, each in two steps.
      const isTidy = () => findHalves(folder, []).length === 0 || undefined
      await until(isTidy, limitMs, 'only whole backups are left')
      counts['backups verified']++
      trial.progress(`full ${counts['times full']} of ${due} times`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    for (const what of await checkRegisters(service.url, registers)) trial.report(what)
    for (const what of await verifyTrail(service.url, await signIn(service.url))) trial.report(what)
    if (service.program.hasEnded()) trial.report('the service exited')
    return { ...counts, 'acknowledged writes': load.acknowledged, reads: load.reads }
  },
}

type Place = {
  readonly service: Listening
  readonly folder: string
  /** A command of the operator, with the clock of the service. */
  run(args: readonly string[]): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>
  jump(byMs: number): Promise<void>
}

async function prepare(trial: Trial): Promise<Place> {
  const folder = mountSmallDisk(trial, 64)
  const database = await trial.createDatabase()
  const settings: Settings = {
    ...database.settings,
    COFFER_BACKUP_TO: folder,
    COFFER_BACKUP_EVERY: '5m',
    COFFER_METRICS_TOKEN: metricsToken,
    TMPDIR: trial.createFolder(),
  }
  const service = await startListening(settings, ['--import', movedClock])
  trial.onEnd(() => service.destroy())
  let offsetMs = 0
  return {
    service,
    folder,
    run(args) {
      const MOVED_CLOCK_MS = String(offsetMs)
      const program = startNode(['--import', movedClock, serverMain, ...args], { ...settings, MOVED_CLOCK_MS })
      program.child.stdin?.end()
      return program.ended
    },
    async jump(byMs) {
      offsetMs += byMs
      service.program.child.stdin?.write(`${offsetMs}\n`)
      const confirmation = `clock moved by ${offsetMs}\n`
      await until(() => service.program.out().includes(confirmation) || undefined, limitMs, 'the clock jumps')
    },
  }
}

async function lastResultIs({ service }: Place, expected: 0 | 1): Promise<void> {
  const isReached = async () => {
    const { text } = await ask(service.url, 'GET', '/metrics', { token: metricsToken })
    const hasBackup = text.includes('\ncoffer_backup_age_seconds ')
    return (hasBackup && text.includes(`\ncoffer_backup_last_result ${expected}\n`)) || undefined
  }
  await until(isReached, limitMs, `the metric of the last backup is ${expected}`)
}

async function moreWrites(load: Load): Promise<void> {
  const goal = load.acknowledged + 20
  await until(() => load.acknowledged >= goal || load.unexpected.length > 0 || undefined, limitMs, 'writes go on')
}

/** Readiness names the failure, `doctor` its reason, and neither makes the service unready. */
async function findUntold(place: Place): Promise<string[]> {
  const { status, text } = await ask(place.service.url, 'GET', '/readyz?verbose')
  const doctor = await place.run(['doctor', '--json'])
  return [
    ...(status === 200 && text.includes('and the last run failed') ? [] : [`/readyz while full: ${status} ${text}`]),
    ...(doctor.out.includes('is full (ENOSPC): make room') ? [] : [`doctor while full: ${doctor.out}${doctor.err}`]),
  ]
}

async function findUnverified(place: Place): Promise<string[]> {
  const { name } = newestBackup(place.folder)
  const verdict = await place.run(['backup', 'verify', join(place.folder, name)])
  const { text } = await ask(place.service.url, 'GET', '/readyz?verbose')
  return [
    ...(verdict.code === 0 ? [] : [`${name} does not verify: ${verdict.out}${verdict.err}`]),
    ...(text.includes('the last run failed') ? [`/readyz with room again: ${text}`] : []),
  ]
}

/** Every backup has its marker, and there is nothing else. */
function findHalves(folder: string, others: readonly string[]): string[] {
  const names = new Set(readdirSync(folder))
  const whole = [...names].filter((name) => backupName.test(name) && names.has(`${name}.verified`))
  const known = new Set([...others, ...whole.flatMap((name) => [name, `${name}.verified`])])
  return [...names].filter((name) => !known.has(name)).map((name) => `${name} lies in the folder of the backups`)
}

function newestBackup(folder: string): { readonly name: string; readonly bytes: number } {
  const name = readdirSync(folder)
    .filter((one) => backupName.test(one))
    .sort()
    .at(-1)
  if (name === undefined) throw new Error('there is no backup')
  return { name, bytes: statSync(join(folder, name)).size }
}
