/** Drives a provider against its fake as the engine does: connects, lists and applies operations. */
import type { WorkspaceOutbound } from '../../server/src/outbound.ts'
import type { Connection, Op, OpResult, Provider, RemoteItem } from '../../server/src/providers/provider.ts'
import { createVendorHttp } from '../../server/src/providers/vendor-http.ts'
import type { RunningFake } from './fake.ts'

const syncId = '0199a000-0000-7000-8000-000000000001'

export function connectionTo(
  { fake, outbound }: RunningFake,
  changes: Partial<Pick<Connection, 'credential' | 'target' | 'options' | 'now' | 'syncId'>> = {},
): Connection {
  const now = changes.now ?? Date.now
  const way: WorkspaceOutbound = { request: (request) => outbound.request({ ...request, reach: 'allowed' }) }
  const http = createVendorHttp({ outbound: way, now, perSecond: 1_000_000, sleep: async () => undefined })
  return { http, credential: fake.credential, target: fake.target, options: fake.options, syncId, now, ...changes }
}

export async function listAll(
  provider: Provider,
  connection: Connection,
  wanted: string[] = [],
): Promise<RemoteItem[]> {
  return Array.fromAsync(provider.connect(connection).list(new Set(wanted)))
}

/** Like the engine: at most `bulk` operations per call, deletes last. */
export async function applyAll(provider: Provider, connection: Connection, ops: readonly Op[]): Promise<OpResult[]> {
  const remote = provider.connect(connection)
  const { bulk, mixes } = provider.capabilities
  const groups = mixes
    ? [ops]
    : [ops.filter(({ kind }) => kind !== 'delete'), ops.filter(({ kind }) => kind === 'delete')]
  const results: OpResult[] = []
  for (const group of groups) {
    for (let from = 0; from < group.length; from += bulk) {
      results.push(...(await Array.fromAsync(remote.apply(group.slice(from, from + bulk)))))
    }
  }
  return results
}

let operations = 0
const operationId = () => `${String(++operations).padStart(8, '0')}-0000-4000-8000-000000000000`
export const create = (name: string, value: string): Op => ({ kind: 'create', name, value, operationId: operationId() })
export const update = (name: string, value: string, id?: string): Op => ({
  kind: 'update',
  name,
  value,
  operationId: operationId(),
  ...(id !== undefined && { id }),
})
export const remove = ({ name, id, mark }: { name: string; id?: string; mark?: string }): Op => ({
  kind: 'delete',
  name,
  ...(id !== undefined && { id }),
  ...(mark !== undefined && { mark }),
})
