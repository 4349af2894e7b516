/** What is asked of the service and, byte for byte the same, of a bare server beside it. */
import type { Load } from './load.ts'
import { type Running, startBare } from './process.ts'
import type { Seeded } from './seed.ts'

type Asked = Omit<Load, 'seconds'> & { readonly process: Running }
export type Case = { readonly name: string; readonly service: Asked; readonly bare: Asked }

const readers = 64
const writers = 16

/** The bare servers that it starts join `running`. */
export async function createCases(service: Running, seeded: Seeded, running: Running[]): Promise<Case[]> {
  const project = '/v1/workspace/main/project'
  const list = `${project}/api/secret?environmentId=${seeded.environmentId}&resolve=true`
  const one = `${project}/api/secret/SECRET_7?environmentId=${seeded.environmentId}`
  const read = async (name: string, path: string, credential: string, etag = false): Promise<Case> => {
    const headers = { authorization: `Bearer ${credential}` }
    const answer = await fetch(service.url + path, { headers })
    const sent = etag ? { ...headers, 'if-none-match': answer.headers.get('etag') ?? '' } : headers
    const bare = await startBare(etag ? await fetch(service.url + path, { headers: sent }) : answer)
    running.push(bare)
    const load = { headers: sent, connections: readers }
    return {
      name,
      service: { ...load, url: service.url + path, process: service },
      bare: { ...load, url: bare.url + path, process: bare },
    }
  }
  const body = JSON.stringify({ environmentId: seeded.environmentId, value: 'a new value §' })
  const writePath = `${project}/api/secret/SECRET_0/value`
  // Before the reads: it changes what they answer.
  const headers = { authorization: `Bearer ${seeded.writer}` }
  const json = { ...headers, 'content-type': 'application/json' }
  const bare = await startBare(await fetch(service.url + writePath, { method: 'PUT', headers: json, body }))
  running.push(bare)
  const write = { headers, body, connections: writers }
  return [
    await read('list projects, token', project, seeded.token),
    await read('list projects, JWT', project, seeded.jwt),
    await read('read one secret, token', one, seeded.token),
    await read('read one secret, JWT', one, seeded.jwt),
    await read('list 50 resolved, token', list, seeded.token),
    await read('not modified (304), token', list, seeded.token, true),
    {
      name: 'write one value, 16 conns',
      service: { ...write, url: service.url + writePath, process: service },
      bare: { ...write, url: bare.url + writePath, process: bare },
    },
  ]
}
