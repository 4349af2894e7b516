/** Checks the contents of a restored store: rows that grant rights, audit trails, and that every value opens. */
import { Failure } from '../../failure.ts'
import { createLongWork, type LongWork } from '../../long-work.ts'
import { type Engine, readOnly } from '../../store/engine/sql.ts'
import { countTampered } from '../../store/integrity.ts'
import type { Keys } from '../../store/key/key.ts'
import { type SealedRecord, sealedWalkStore } from '../../store/secret/sealed-walk.ts'
import type { KeyMemory } from '../../store/secret/value-seal.ts'
import { type ReadStore, storeOver } from '../../store/store.ts'
import { verifyChain } from '../audit/verify.ts'
import { findBrokenSets } from '../workspace/row-set.ts'
import type { BackupOptions, Manifest } from './manifest.ts'

/** More problems than these help nobody. */
const maxNamed = 20
const maxKeys = 10_000
const recordsPerTurn = 100

/** Returns one sentence for each problem. */
export async function checkStore(
  engine: Engine,
  keys: Keys,
  manifest: Manifest,
  options: BackupOptions,
): Promise<string[]> {
  const store = storeOver(readOnly(engine), keys)
  const longWork = createLongWork()
  options.onProgress?.({ stage: 'rights', done: 0, total: 0 })
  const tampered = await countTampered(engine, keys)
  return [
    ...tampered.map((rows) => `Changed outside of Coffer: ${rows}.`),
    ...(await checkSets(store)),
    ...(await checkTrails({ store, keys, longWork }, manifest, options)),
    ...(await checkValues(engine, store, longWork, options)),
  ]
}

async function checkSets(store: ReadStore): Promise<string[]> {
  const problems: string[] = []
  for await (const { slug, what } of findBrokenSets(store)) {
    problems.push(`Removed or put back outside of Coffer: ${what} of ${JSON.stringify(slug)}.`)
  }
  return problems.slice(0, maxNamed)
}

async function checkTrails(
  services: { readonly store: ReadStore; readonly keys: Keys; readonly longWork: LongWork },
  manifest: Manifest,
  options: BackupOptions,
): Promise<string[]> {
  const { store } = services
  const { signal, onProgress } = options
  const heads = new Map(manifest.auditHeads.map((head) => [head.chain, head]))
  const problems: string[] = []
  let done = 0
  let chain = await store.audit.findChainAfter('')
  for (; chain !== undefined; chain = await store.audit.findChainAfter(chain)) {
    signal?.throwIfAborted()
    const verdict = await verifyChain(services, chain, () => signal?.throwIfAborted())
    const name = JSON.stringify(chain)
    if (!verdict.ok) problems.push(`Audit trail ${name} is broken at entry ${verdict.firstBroken}: ${verdict.reason}`)
    const expected = heads.get(chain)
    if (expected ? verdict.head !== expected.hash : heads.size === manifest.auditChains) {
      problems.push(`The head of audit trail ${name} is not the one in the manifest.`)
    }
    heads.delete(chain)
    done++
    onProgress?.({ stage: 'audit trails', done, total: Math.max(done, manifest.auditChains) })
  }
  for (const missing of heads.keys()) problems.push(`Audit trail ${JSON.stringify(missing)} is missing.`)
  return problems.slice(0, maxNamed)
}

async function checkValues(
  engine: Engine,
  store: ReadStore,
  { giveWay }: LongWork,
  { onProgress, signal }: BackupOptions,
): Promise<string[]> {
  const records = sealedWalkStore(engine)
  const total = await records.count()
  const problems: string[] = []
  const memory: KeyMemory = { byVersion: new Map(), newest: new Map() }
  let done = 0
  for (const walk of [records.values, records.versions]) {
    for await (const record of walk()) {
      if (!(await opens(store, record, memory)) && problems.length < maxNamed) {
        const { secretId, environmentId, version } = record
        const place = `secret ${secretId} in environment ${environmentId}, version ${version}`
        problems.push(`A value does not open: ${place}.`)
      }
      if (memory.byVersion.size > maxKeys) memory.byVersion.clear()
      if (++done % recordsPerTurn > 0) continue
      signal?.throwIfAborted()
      onProgress?.({ stage: 'values', done, total })
      await giveWay()
    }
  }
  return problems
}

async function opens(store: ReadStore, record: SealedRecord, memory: KeyMemory): Promise<boolean> {
  try {
    await store.secretValues.open(record, record, memory)
    return true
  } catch (error) {
    if (error instanceof Failure) return false
    throw error
  }
}
