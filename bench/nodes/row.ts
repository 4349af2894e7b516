/** The rows of `npm run bench:nodes`: each compares a load with a reference load. */
import { readers, writers } from '../case.ts'
import { type Load, methodOf } from '../load.ts'
import { type Running, startBare, startLeastNode } from '../process.ts'
import { bearer, type Seeded } from '../seed.ts'

type NodeRequest = Omit<Load, 'seconds' | 'connections' | 'url'> & { readonly path: string }
/** A request to one process by some of the connections. */
export type Share = { readonly process: Running; readonly request: NodeRequest; readonly connections: number }
export type NodeRow = {
  readonly name: string
  readonly reference: readonly Share[]
  readonly shares: readonly Share[]
  /** The shares are measured with a second number in the heads. */
  readonly hasCounter?: boolean
}
type Nodes = readonly [Running, Running]

export function serviceRows(nodes: Nodes, main: Seeded, other: Seeded): NodeRow[] {
  const [first, second] = nodes
  const [one, two] = [writeTo('main', main), writeTo('other', other)]
  const half = writers / 2
  const write = { name: 'write, one workspace', ...oneAndTwo(nodes, one, writers) }
  const read = readOf('main', main)
  return [
    write,
    doubled(nodes, one, writers, 'write, one workspace, double load'),
    halved(nodes, one, writers, 'write, one node, half load'),
    {
      name: 'write, two workspaces',
      reference: [one, two].map((request) => ({ process: first, request, connections: half })),
      shares: [
        { process: first, request: one, connections: half },
        { process: second, request: two, connections: half },
      ],
    },
    { ...write, name: 'write, one node, counter', shares: write.reference, hasCounter: true },
    { ...write, name: 'write, one workspace, counter', hasCounter: true },
    { name: 'read', ...oneAndTwo(nodes, read, readers) },
    doubled(nodes, read, readers, 'read, double load'),
    halved(nodes, read, readers, 'read, one node, half load'),
  ]
}

/** Pairs of reference servers that send the answers of the service; they are added to `running`. */
export async function referenceRows(
  service: Running,
  main: Seeded,
  databaseUrl: string,
  running: Running[],
): Promise<NodeRow[]> {
  const [write, read] = [writeTo('main', main), readOf('main', main)]
  const start = async (request: NodeRequest, run: (response: Response) => Promise<Running>): Promise<Running> => {
    const process = await run(await send(service, request))
    running.push(process)
    return process
  }
  const startTwo = async (...how: Parameters<typeof start>): Promise<Nodes> => [
    await start(...how),
    await start(...how),
  ]
  const locking = (response: Response) => startLeastNode(response, databaseUrl, 'lock')
  const free = (response: Response) => startLeastNode(response, databaseUrl, 'free')
  const leader = await start(write, locking)
  const follower = await start(write, (response) => startLeastNode(response, leader.url, 'forward'))
  return [
    { name: 'least write', ...oneAndTwo(await startTwo(write, locking), write, writers) },
    { name: 'least write, without lock', ...oneAndTwo(await startTwo(write, free), write, writers) },
    { name: 'least write, forwarded', ...oneAndTwo([leader, follower], write, writers) },
    { name: 'least read', ...oneAndTwo(await startTwo(read, locking), read, readers) },
    { name: 'bare read', ...oneAndTwo(await startTwo(read, startBare), read, readers) },
  ]
}

/** The same connections to one process, and half of them to each of two. */
const oneAndTwo = (nodes: Nodes, request: NodeRequest, connections: number): Omit<NodeRow, 'name'> => ({
  reference: [{ process: nodes[0], request, connections }],
  shares: nodes.map((process) => ({ process, request, connections: connections / 2 })),
})

const doubled = (nodes: Nodes, request: NodeRequest, connections: number, name: string): NodeRow => ({
  name,
  reference: [{ process: nodes[0], request, connections }],
  shares: nodes.map((process) => ({ process, request, connections })),
})

/** Shows how much of the cost of two processes comes from fewer requests for each. */
const halved = ([process]: Nodes, request: NodeRequest, connections: number, name: string): NodeRow => ({
  name,
  reference: [{ process, request, connections }],
  shares: [{ process, request, connections: connections / 2 }],
})

function writeTo(ws: string, { writer, environmentId }: Seeded): NodeRequest {
  const body = JSON.stringify({ environmentId, value: 'a new value §' })
  return { path: `/v1/workspace/${ws}/project/api/secret/SECRET_0/value`, headers: bearer(writer), body }
}

function readOf(ws: string, { token, environmentId }: Seeded): NodeRequest {
  const path = `/v1/workspace/${ws}/project/api/secret/SECRET_7?environmentId=${environmentId}`
  return { path, headers: bearer(token) }
}

function send(service: Running, { path, ...load }: NodeRequest): Promise<Response> {
  const method = methodOf({ ...load, url: '', connections: 1, seconds: 0 })
  if (load.body === undefined) return fetch(service.url + path, { method, headers: load.headers ?? {} })
  const headers = { ...load.headers, 'content-type': 'application/json' }
  return fetch(service.url + path, { method, headers, body: load.body })
}
