/** A steady load: memory, file handles and the write-ahead log must level off instead of growing. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Program } from '../../test/program.ts'
import { nodeOptions, startEnvironment } from '../../test/start-command.ts'
import { startListening } from '../../test/start-server.ts'
import { bothEngines, type Case } from '../case.ts'
import { pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register } from '../load/tenant.ts'
import { openInspector } from './inspector.ts'

const intervalMs = 1_000
/** A slope of fewer samples is not significant. */
const minSamples = 20
const kib = 1024

type Sample = {
  readonly minutes: number
  readonly heap: number
  readonly resident: number
  readonly handles: number
  readonly wal: number
}
/** Maximum growth per minute over the second half. */
const maxPerMinute = { heap: 4 * kib, resident: 24 * kib, handles: 6, wal: 8 * kib }

export const soak: Case = {
  name: 'soak',
  about: 'growth of heap, resident memory, file handles and write-ahead log under a steady load',
  engines: bothEngines,
  seconds: 50,
  async run(trial) {
    const { settings, dataDir } = await trial.createDatabase()
    const service = await startListening({ ...startEnvironment, ...settings }, [
      '--inspect=127.0.0.1:0',
      ...nodeOptions,
    ])
    trial.onEnd(() => service.destroy())
    const registers = await createRegisters(trial, service.url, await register(service.url))
    const inspector = await openInspector(service.program)
    trial.onEnd(() => inspector.close())
    const load = startLoad(() => service.url, registers, { readers: 6 })
    const samples: Sample[] = []
    const due = trial.scale(60)
    const startedAt = performance.now()
    while (samples.length < due && !trial.isOver() && load.unexpected.length === 0) {
      await pause(intervalMs)
      const heap = (await inspector.heapBytes()) / kib
      samples.push({
        minutes: (performance.now() - startedAt) / 60_000,
        heap,
        ...readProcess(service.program, dataDir),
      })
      trial.progress(`${samples.length} of ${due} samples, ${Math.round(heap / kib)} MiB of live heap`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    for (const what of await checkRegisters(service.url, registers)) trial.report(what)
    const half = samples.slice(Math.floor(samples.length / 2))
    const slopes = {
      heap: slope(half, 'heap'),
      resident: slope(half, 'resident'),
      handles: slope(half, 'handles'),
      wal: slope(half, 'wal'),
    }
    if (samples.length >= minSamples) {
      for (const [what, perMinute] of Object.entries(slopes)) {
        const limit = maxPerMinute[what as keyof typeof maxPerMinute]
        if (perMinute > limit)
          trial.report(`${what} grows by ${Math.round(perMinute)} per minute, the limit is ${limit}`)
      }
    }
    const last = samples.at(-1)
    return {
      samples: samples.length,
      'acknowledged writes': load.acknowledged,
      reads: load.reads,
      'KiB of heap at the end': Math.round(last?.heap ?? 0),
      'KiB of heap a minute': Math.round(slopes.heap),
      'KiB resident at the end': Math.round(last?.resident ?? 0),
      'KiB resident a minute': Math.round(slopes.resident),
      'file handles at the end': last?.handles ?? 0,
      'file handles a minute': Math.round(slopes.handles),
      'KiB of WAL at most': Math.round(Math.max(...samples.map(({ wal }) => wal), 0)),
      'KiB of WAL a minute': Math.round(slopes.wal),
    }
  },
}

function readProcess({ child }: Program, dataDir: string) {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  const wal = statSync(join(dataDir, 'coffer.db-wal'), { throwIfNoEntry: false })
  return {
    resident: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]),
    handles: readdirSync(`/proc/${child.pid}/fd`).length,
    wal: (wal?.size ?? 0) / kib,
  }
}

/** Linear regression by least squares. */
function slope(samples: readonly Sample[], what: Exclude<keyof Sample, 'minutes'>): number {
  const mean = (numbers: number[]) => numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length)
  const x = mean(samples.map(({ minutes }) => minutes))
  const y = mean(samples.map((sample) => sample[what]))
  const covariance = samples.reduce((sum, sample) => sum + (sample.minutes - x) * (sample[what] - y), 0)
  const variance = samples.reduce((sum, { minutes }) => sum + (minutes - x) ** 2, 0)
  return variance === 0 ? 0 : covariance / variance
}
