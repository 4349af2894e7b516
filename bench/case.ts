/** What is asked of the service and, byte for byte the same, of a bare server beside it. */
import { type Load, methodOf } from './load.ts'
import { type Running, startBare, startLeast } from './process.ts'
import { bearer, createProject, type Seeded, type World } from './seed.ts'

export type Asked = Omit<Load, 'seconds'> & { readonly process: Running }
export type Case = {
  readonly name: string
  readonly service: Asked
  readonly bare: Asked
  /** Before each run: in place of what the last one has used up. */
  renew?(): Promise<Partial<Load>>
  /** Ends what it has started besides the bare server. */
  close?(): void | Promise<void>
}
export type Plan = {
  readonly name: string
  /** Each answer waits for a commit: it is compared with raw commits, too. */
  readonly isDurable?: boolean
  /** Swings from round to round. */
  readonly isUnsteady?: boolean
  /** Where few fit into a second. */
  readonly minSeconds?: number
  open(world: World): Promise<Case>
}

type Request = Omit<Load, 'seconds' | 'url'> & { readonly path: string }

export const readers = 64
export const writers = 16
const projects = '/v1/workspace/main/project'

/** Asks once, and has the answer sent by a bare server from then on. */
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
/** As short scripts ask: each over a connection of its own. */
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

/** Nobody can do better here and keep what is written: it shows how much of `write one` is the service's own. */
export const leastWrite: Plan = {
  name: 'write one, least work',
  isDurable: true,
  async open(world) {
    const { bare } = await writeOne.open(world)
    const least = await startLeast(await fetch(bare.url))
    const url = least.url + new URL(bare.url).pathname
    return { name: this.name, service: { ...bare, url, process: least }, bare, close: least.stop }
  },
}

/** All at once; the bare servers that it starts join `running`. */
export async function createCases(service: Running, seeded: Seeded, running: Running[]): Promise<Case[]> {
  const world = { service, seeded }
  // Before the others: they change what those answer.
  const last = [await listThousand.open(world), await writeOne.open(world)]
  const cases: Case[] = []
  for (const plan of [validateToken, validateJwt, readOne, readOneByJwt, listResolved, notModified]) {
    cases.push(await plan.open(world))
  }
  cases.push(...last)
  running.push(...cases.map(({ bare }) => bare.process))
  return cases
}
