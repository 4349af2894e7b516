/** The requests that are measured, sent to the service and to a bare server that answers with the same bytes. */
import { type Load, methodOf } from './load.ts'
import { type Running, startBare, startLeast } from './process.ts'
import { bearer, createProject, type Seeded, type World } from './seed.ts'

export type Asked = Omit<Load, 'seconds'> & { readonly process: Running }
export type Case = {
  readonly name: string
  readonly service: Asked
  readonly bare: Asked
  /** Called before each run to replace what the previous run used up. */
  renew?(): Promise<Partial<Load>>
  /** Stops everything the case started except the bare server. */
  close?(): void | Promise<void>
}
export type Plan = {
  readonly name: string
  /** Each response waits for a commit, so the rate is also compared with raw commits. */
  readonly isDurable?: boolean
  /** The rate varies much between rounds. */
  readonly isUnsteady?: boolean
  /** For slow requests: one second would hold too few of them. */
  readonly minSeconds?: number
  /** Much code of its own: after the usual warm-up, compiling it still takes a quarter of the processor time. */
  readonly isSlowToWarmUp?: boolean
  open(world: World): Promise<Case>
}

type Request = Omit<Load, 'seconds' | 'url'> & { readonly path: string }

export const readers = 64
export const writers = 16
const projects = '/v1/workspace/main/project'

/** Sends the request once and starts a bare server that repeats the response. */
export async function openCase({ service }: World, name: string, { path, ...load }: Request): Promise<Case> {
  const [token] = load.bearers ?? []
  const headers = { ...load.headers, ...(token !== undefined && bearer(token)) }
  const isSending = load.body !== undefined
  const answer = await fetch(service.url + (load.paths?.[0] ?? path), {
    method: methodOf({ ...load, url: '', seconds: 0 }),
    headers: { ...headers, ...(isSending && { 'content-type': 'application/json' }) },
    ...(isSending && { body: load.body?.replaceAll('§', 'sample') ?? '' }),
  })
  if (answer.status >= 400) throw new Error(`${name}: ${answer.status} ${await answer.text()}`)
  const bare = await startBare(answer)
  return {
    name,
    service: { ...load, url: service.url + path, process: service },
    bare: { ...load, url: bare.url + path, process: bare },
  }
}

const read = (name: string, path: (seeded: Seeded) => string, credential: 'token' | 'jwt' = 'token'): Plan => ({
  name,
  open: (world) =>
    openCase(world, name, {
      path: path(world.seeded),
      headers: bearer(world.seeded[credential]),
      connections: readers,
    }),
})

const onePath = ({ environmentId }: Seeded) => `${projects}/api/secret/SECRET_7?environmentId=${environmentId}`
const listPath = ({ environmentId }: Seeded) => `${projects}/api/secret?environmentId=${environmentId}`
const resolvedPath = (seeded: Seeded) => `${listPath(seeded)}&resolve=true`

export const validateToken = read('token, warm', () => projects)
export const validateJwt = read('JWT', () => projects, 'jwt')
export const readOne = read('read one', onePath)
export const readOneByJwt = read('read one, JWT', onePath, 'jwt')
/** Like short scripts: a new connection for each request. */
export const readOneApart: Plan = {
  name: 'read one, new connections',
  isUnsteady: true,
  open: (world) =>
    openCase(world, readOneApart.name, {
      path: onePath(world.seeded),
      headers: { ...bearer(world.seeded.token), connection: 'close' },
      connections: readers,
    }),
}
export const listFifty = read('list 50', listPath)
export const listResolved = read('list 50, resolved', resolvedPath)

export const listThousand: Plan = {
  name: 'list 1,000',
  minSeconds: 2,
  async open(world) {
    const { path, environmentId } = await createProject(world, 'thousand', 1_000)
    const asked = `${path}/secret?environmentId=${environmentId}`
    return openCase(world, this.name, { path: asked, headers: bearer(world.seeded.token), connections: readers })
  },
}

export const notModified: Plan = {
  name: 'not modified (304)',
  async open(world) {
    const path = resolvedPath(world.seeded)
    const headers = bearer(world.seeded.token)
    const etag = (await fetch(world.service.url + path, { headers })).headers.get('etag') ?? ''
    return openCase(world, this.name, { path, headers: { ...headers, 'if-none-match': etag }, connections: readers })
  },
}

export const writeOne: Plan = {
  name: 'write one',
  isDurable: true,
  isUnsteady: true,
  isSlowToWarmUp: true,
  open(world) {
    const { environmentId, writer } = world.seeded
    return openCase(world, this.name, {
      path: `${projects}/api/secret/SECRET_0/value`,
      headers: bearer(writer),
      body: JSON.stringify({ environmentId, value: 'a new value §' }),
      connections: writers,
    })
  },
}

/** The lower bound for a durable write; the difference to `write one` is the cost of the service itself. */
export const leastWrite: Plan = {
  name: 'write one, least work',
  isDurable: true,
  isUnsteady: true,
  isSlowToWarmUp: true,
  async open(world) {
    const { bare } = await writeOne.open(world)
    const least = await startLeast(await fetch(bare.url))
    const url = least.url + new URL(bare.url).pathname
    return { name: this.name, service: { ...bare, url, process: least }, bare, close: least.stop }
  },
}

/** Opens every case; the bare servers that it starts are added to `running`. */
export async function createCases(service: Running, seeded: Seeded, running: Running[]): Promise<Case[]> {
  const world = { service, seeded }
  // These two change the data that the other cases read, so they are opened first.
  const last = [await listThousand.open(world), await writeOne.open(world)]
  const cases: Case[] = []
  for (const plan of [validateToken, validateJwt, readOne, readOneByJwt, listResolved, notModified]) {
    cases.push(await plan.open(world))
  }
  cases.push(...last)
  running.push(...cases.map(({ bare }) => bare.process))
  return cases
}
