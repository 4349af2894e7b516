/** Reads from the memory of the SDK, compared with a Map. The service is stopped first, so that no read can need it. */
import { openSecrets, type Secrets } from '@coffer/sdk'
import { endService } from './engine.ts'
import { median, type Result } from './load.ts'
import { type Bench, rowOf } from './measure.ts'
import { startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { seed } from './seed.ts'

const title = 'SDK, in memory'
const name = 'get from cache'
/** A single read is too short for the clock. */
const readsPerBatch = 1_000

export async function measureSdk(bench: Bench): Promise<void> {
  if (!bench.wants(title, name)) return
  bench.progress(`${title}: starting`)
  const secrets = await openAndStop()
  const map = new Map(Object.entries(secrets.reveal()))
  // A tenth of the time is enough: nothing but the processor takes part.
  const measure = (get: (name: string) => string | undefined) =>
    readFor(bench.options.seconds * 100, secrets.names(), get)
  const round = () => ({ reference: measure((name) => map.get(name)), service: measure((name) => secrets.get(name)) })
  round()
  const rounds = Array.from({ length: bench.options.rounds }, round)
  bench.addRow(bench.openSection(title, 'Map'), rowOf(name, 1, rounds))
}

async function openAndStop(): Promise<Secrets> {
  const dataDir = makeFolder()
  const service = await startService(dataDir)
  try {
    const { token, environmentId } = await seed(service)
    const place = { workspace: 'main', project: 'api', environment: environmentId }
    return await openSecrets({ url: service.url, credential: token, ...place })
  } finally {
    await endService(service, dataDir)
  }
}

function readFor(durationMs: number, names: readonly string[], get: (name: string) => string | undefined): Result {
  const batchMs: number[] = []
  let errors = 0
  const startedAt = performance.now()
  let at = startedAt
  while (at - startedAt < durationMs) {
    for (let read = 0; read < readsPerBatch; read++) if (!get(names[read % names.length] ?? '')) errors++
    const now = performance.now()
    batchMs.push((now - at) / readsPerBatch)
    at = now
  }
  return {
    perSecond: (batchMs.length * readsPerBatch * 1_000) / (at - startedAt),
    p50Ms: median(batchMs),
    p99Ms: batchMs.toSorted((one, other) => one - other)[Math.floor(batchMs.length * 0.99)] ?? Number.NaN,
    errors,
  }
}
