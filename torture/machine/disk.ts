/**
 * A full disk: no write is acknowledged without being stored, reads continue or are refused, and freeing space is
 * enough to recover.
 */
import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startPostgres } from '../../test/postgres.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { ask } from '../load/ask.ts'
import { checkRegisters, createRegisters, type Registers, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'
import { fillDisk, mountSmallDisk, unableToMount } from './small-disk.ts'

const freeBytes = 256 * 1024
const largeValueBytes = 60_000
const root = '/v1/workspace/main/project/counted/secret'

export const disk: Case = {
  name: 'disk',
  about: 'a full disk (a small tmpfs): no false success, recovery without a restart',
  engines: bothEngines,
  seconds: 25,
  unable: unableToMount,
  async run(trial) {
    const { settings, folder } = await prepare(trial)
    const service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const session = await register(service.url)
    const registers = await createRegisters(trial, service.url, session)
    const load = startLoad(() => service.url, registers, { refusals: [503] })
    const counts = {
      'times full': 0,
      'acknowledged writes': 0,
      reads: 0,
      'reads while full': 0,
      'refused with 503': 0,
    }
    const due = trial.scale(6)
    const acknowledged = new Map<string, string>()
    while (counts['times full'] < due && !trial.isOver() && load.unexpected.length === 0) {
      const ballast = fillDisk(folder, freeBytes)
      const readsBefore = load.reads
      await fill(trial, service.url, registers, acknowledged, counts['times full'])
      const refusedBefore = load.refused
      await until(
        () => load.refused > refusedBefore + 20 || load.unexpected.length > 0 || undefined,
        120_000,
        'the disk is full',
      )
      counts['reads while full'] += load.reads - readsBefore
      rmSync(ballast)
      const before = load.acknowledged
      await until(
        () => load.acknowledged > before + 5 || load.unexpected.length > 0 || undefined,
        120_000,
        'writes succeed again',
      )
      counts['times full']++
      trial.progress(`full ${counts['times full']} of ${due} times`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    for (const what of await checkRegisters(service.url, registers)) trial.report(what)
    for (const [key, value] of acknowledged) {
      const path = `${root}/${key}?environmentId=${registers.environmentId}`
      const { status, text } = await ask(service.url, 'GET', path, { token: registers.reader })
      if (status !== 200 || !text.includes(value)) trial.report(`${key} was acknowledged and now returns ${status}`)
    }
    for (const what of await verifyTrail(service.url, session)) trial.report(what)
    if (service.program.hasEnded()) trial.report('the service exited')
    counts['acknowledged writes'] = load.acknowledged + acknowledged.size
    return { ...counts, reads: load.reads, 'refused with 503': load.refused }
  },
}

/** Puts the data on a small disk, and PostgreSQL's WAL elsewhere: PostgreSQL shuts down when its WAL disk is full. */
async function prepare(trial: Trial) {
  const folder = mountSmallDisk(trial, trial.engine === 'sqlite' ? 24 : 96)
  if (trial.engine === 'sqlite') return { folder, settings: { COFFER_DATA_DIR: join(folder, 'data') } }
  const walFolder = trial.createFolder()
  chmodSync(walFolder, 0o777)
  const postgres = await startPostgres([], {
    dataDir: join(folder, 'data'),
    initdbFlags: [`--waldir=${join(walFolder, 'wal')}`],
  })
  trial.onEnd(() => postgres.stop())
  return { folder, settings: { COFFER_DATA_DIR: trial.createFolder(), COFFER_DATABASE_URL: postgres.url } }
}

/** Writes large values until one is refused, and remembers the acknowledged ones. */
async function fill(
  trial: Trial,
  url: string,
  { environmentId, writer }: Registers,
  acknowledged: Map<string, string>,
  round: number,
) {
  for (let count = 0; count < 400; count++) {
    const key = `BIG_${round}_${count}`
    const value = Array.from({ length: largeValueBytes / 8 }, () =>
      trial
        .dice(2 ** 31)
        .toString(36)
        .padStart(8, '0')
        .slice(0, 8),
    ).join('')
    const body = { environments: [environmentId], secrets: [{ key, value }] }
    const { status, text } = await ask(url, 'POST', root, { token: writer, body })
    if (status === 201) acknowledged.set(key, value)
    else if (status === 503) return
    else {
      trial.report(`POST of a large value: ${status} ${text}`)
      return
    }
  }
  trial.report('the disk never became full')
}
