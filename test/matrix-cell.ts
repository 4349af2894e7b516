/** The cells of the authorisation matrix: each is one request of one caller, with the status that it must get. */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import type { Ask } from './ask.ts'
import { createDice, seed } from './dice.ts'
import { engine } from './harness.ts'
import { type Caller, expectedStatus, rights } from './matrix-right.ts'
import { choosePairwise } from './pairwise.ts'
import { requestsTo, requestTable } from './request-table.ts'
import { isDeep } from './tier.ts'
import type { World } from './world.ts'

export type Cell = {
  readonly title: string
  readonly name: EndpointName
  readonly endpoint: Endpoint
  readonly ask: Ask
  readonly status: number
}

export const endpointNames = Object.keys(endpoints).filter((name): name is EndpointName => name in endpoints)

/** A caller with the group that it belongs to; the callers of a sample also ask the public endpoints. */
type Asking = { readonly group: string; readonly caller: Caller; readonly isSample: boolean }

/**
 * The cells of a run: in the deep tier all of them. In the fast tier, as many as hold every pair of factors on SQLite; on
 * PostgreSQL every request that succeeds and every refusal of every endpoint, because the engine does not depend on the
 * caller.
 */
export function planCells(world: World, asking: readonly Asking[]): Map<Caller, readonly Cell[]> {
  const every = asking.flatMap(({ group, caller, isSample }) =>
    withoutRepeats(caller, cellsOf(world, caller, isSample)).map((cell) => ({ group, caller, cell })),
  )
  const chosen = isDeep ? every : choosePairwise(every, engine === 'sqlite' ? featuresOf : outcomeOf, createDice(seed))
  const byCaller = Map.groupBy(chosen, ({ caller }) => caller)
  return new Map([...byCaller].map(([caller, rows]) => [caller, rows.map(({ cell }) => cell)]))
}

function cellsOf(world: World, caller: Caller, isSample: boolean): Cell[] {
  const table = requestTable(world, caller.tokens)
  return endpointNames.flatMap((name) => {
    if (!(name in rights)) throw new Error(`${name} has no right: add the one that the specification asks for`)
    // Hashing a password is slow, and these endpoints ignore credentials.
    if (rights[name] === 'public' && !isSample) return []
    const endpoint: Endpoint = endpoints[name]
    const asks = requestsTo(table, name)
    return [...asks, ...malformed(asks[0])]
      .filter((ask) => caller.kind === 'session' || !isForSessions(ask))
      .map((ask) => ({
        title: `${caller.name}: ${name}, ${ask.what}`,
        name,
        endpoint,
        ask,
        status: expectedStatus(world, caller, name, ask),
      }))
  })
}

/** Requests where tokens are refused early, or get the same response as sessions. */
const isForSessions = ({ isMalformed, newToken }: Ask) => isMalformed || newToken?.scope.all === false

/** The same request with an unknown field, and with a malformed path. */
function malformed(ask: Ask | undefined): Ask[] {
  if (!ask) return []
  const result: Ask[] = []
  const rest = { isMalformed: true } as const
  if (ask.body) result.push({ ...rest, what: 'unknown field', path: ask.path, body: { ...ask.body, colour: 'red' } })
  const body = ask.body ? { body: ask.body } : {}
  const badPath = ask.path
    .replace('/v1/workspace/main', '/v1/workspace/No_Slug')
    .replace(/^\/v1\/me\/session\/.*/, '/v1/me/session/No_Id')
  if (badPath !== ask.path) result.push({ ...rest, ...body, what: 'malformed path', path: badPath })
  return result
}

export const isAllowed = ({ status }: Cell) => status < 400
export const isDry = ({ ask }: Cell) => ask.body?.dryRun === true || ask.isQuestion === true
export const isWrite = (cell: Cell) => isAllowed(cell) && cell.endpoint.method !== 'GET' && !isDry(cell)

/** Leaves out redundant writes. */
function withoutRepeats(caller: Caller, all: readonly Cell[]): Cell[] {
  const allowed = all.filter(isAllowed)
  // Undoing is slow: where a token has written, its JWT writes to each endpoint only once.
  // Syncs are set up and changed by sessions; other credentials only start one, and are still refused where they must be.
  // The engine does not depend on the credential: on one engine, only sessions write.
  const isRepeated = (cell: Cell) => {
    const { name, endpoint } = cell
    return engine === 'postgres' && caller.kind !== 'session'
      ? name !== 'exchangeToken'
      : endpoint.area === 'sync'
        ? caller.kind !== 'session' && name !== 'startSync'
        : (caller.kind === 'jwt' || caller.kind === 'oidc') &&
          endpoint.area === 'secret' &&
          allowed.find((other) => other.name === name) !== cell
  }
  return all.filter((cell) => !isWrite(cell) || !isRepeated(cell))
}

/** Most requests are refused before they reach the store. */
const outcomeOf = ({ cell }: { cell: Cell }) => [
  isAllowed(cell) ? `request ${cell.name}, ${cell.ask.what}` : `endpoint ${cell.name}`,
  `status ${cell.status}`,
]

/** The factors that decide about a request, by the specification; every pair of them occurs in some cell. */
function featuresOf({ group, caller, cell }: { group: string; caller: Caller; cell: Cell }): string[] {
  const { name, kind, permission, grants, isAlive, limit } = caller
  // An invalid credential is refused for every request to the endpoint.
  if (!isAlive) return [`endpoint ${cell.name}`, `credential ${name}`]
  const [grant, ...further] = grants
  const request = `request ${cell.name}, ${cell.ask.what}`
  if (further.length > 0) return [isAtPlace(cell) ? request : `endpoint ${cell.name}`, group]
  return [
    request,
    `role ${grant?.role ?? group}`,
    `membership of ${JSON.stringify(grant?.scope)}`,
    `token for ${JSON.stringify(limit)}`,
    `credential ${kind === 'session' || !grant ? name : `${kind} ${permission}`}`,
  ]
}

/** Where a request is about something within the workspace, the grants decide about each one; elsewhere about the endpoint. */
const isAtPlace = ({ ask }: Cell) => !ask.isMalformed && (ask.on ?? ask.into ?? ask.newToken) !== undefined
