/**
 * The authorisation matrix: every endpoint of the contract, asked with every kind of credential, role and scope. Expected
 * statuses come from the role table of the specification, written down once more in test/matrix-right.ts; the server's own
 * rules are not used. A refused request must also leave the database as it was. The deep tier runs every cell. The fast
 * tier runs as many as hold every pair of request, role, scope and kind of credential, chosen by a seed, and on PostgreSQL
 * every request that succeeds and every refusal of every endpoint.
 */

import type { EndpointName } from '@coffer/contract/api'
import type { Scope } from '@coffer/contract/field'
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Ask } from '../../../test/ask.ts'
import {
  type Change,
  type Content,
  changesBetween,
  describeChange,
  readContent as readEverything,
  restoreContent,
} from '../../../test/content.ts'
import { seed } from '../../../test/dice.ts'
import {
  type Answer,
  addUser,
  engine,
  exchange,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { loopbackAllowed, startIssuer, type TestIssuer } from '../../../test/issuer.ts'
import {
  createCallers,
  createExpired,
  createIdentities,
  createNobody,
  createRevoked,
  createStrangers,
  dead,
  heirsOwn,
  makeToken,
  ownValue,
  people,
  writeOwn,
} from '../../../test/matrix-caller.ts'
import { type Cell, endpointNames, isAllowed, isDry, isWrite, planCells } from '../../../test/matrix-cell.ts'
import { findDisagreements } from '../../../test/matrix-question.ts'
import { type Caller, holds, holdsScope, managesTokens, rights, sees, seesShare } from '../../../test/matrix-right.ts'
import { requestTable } from '../../../test/request-table.ts'
import { createServiceCallers } from '../../../test/service-caller.ts'
import { isDeep } from '../../../test/tier.ts'
import { createWorld, type World } from '../../../test/world.ts'
import { createStrangerRecords } from '../domain/audit/anonymous-limit.ts'

/** Exactly the teams, projects, environments, secrets and tokens that a response may name. */
function expectedIds(caller: Caller, name: EndpointName, ask: Ask): string[] | undefined {
  const seen = [...world.containers.keys()].filter((id) => sees(world, caller, id))
  const container = (id: string) => world.containers.get(id)
  const isTeam = (id: string) => container(id) === undefined
  const parts = seen.filter((id) => ask.on !== undefined && container(id) === ask.on)
  if (name === 'listTeams') return seen.filter(isTeam)
  if (name === 'listProjects') return seen
  if (name === 'listEnvironments') return parts
  if (name === 'readProject' && ask.on !== undefined) return [ask.on, container(ask.on) ?? '', ...parts]
  if (name === 'listShares') return seesShare(world, caller) ? [world.share.id] : []
  if (name === 'listSyncs') {
    return holds(world, caller, world.environments.right, 'admin') ? syncIds() : [world.syncs.draft]
  }
  const shows = ask.shows?.filter((id) => holds(world, caller, id))
  // A secret is found with its project, which is visible as the container of what the caller holds.
  if (name === 'searchSecrets' && shows) return [...new Set([...shows, ...shows.flatMap((id) => container(id) ?? [])])]
  if (shows) return shows
  if (name === 'listTokens') {
    return managesTokens(caller) ? [...tokenOwners.keys()].slice(0, longestPage) : ownTokens(caller)
  }
  return undefined
}

/** Both syncs, and the environment of the running one. */
const syncIds = () => [world.syncs.draft, world.syncs.live, world.environments.right]

/** Page size of the token list; nobody has more tokens of their own. */
const longestPage = 200

async function readTokenOwners({ session }: TestUser): Promise<void> {
  const list = `/v1/workspace/main/tokens?limit=${longestPage}`
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Answer<Token[]> = await service.call<Token[]>('GET', `${list}${cursor && `&cursor=${cursor}`}`, {
      token: session,
    })
    for (const { id, ownerId, scope } of page.body) tokenOwners.set(id, { ownerId, scope })
    cursor = page.headers.get('x-next-cursor')
  }
}

const ownTokens = (caller: Caller) => {
  const { tokens, kind } = caller
  if (kind === 'oidc') return []
  const owner = tokenOwners.get(tokens.own)?.ownerId
  return [...tokenOwners]
    .filter(([, token]) => token.ownerId === owner)
    .filter(([id, { scope }]) => kind === 'session' || id === tokens.itself || holdsScope(world, caller, scope))
    .map(([id]) => id)
}

const outsiders = ['nobody', 'expired', 'revoked', 'strangers'] as const
/** The engine does not depend on the caller: on one engine, the fast tier has fewer of them. */
const asking =
  isDeep || engine === 'sqlite'
    ? people
    : people.filter(({ grants }) => grants.every(([, scope]) => scope === 'all' || scope === 'right environment'))
const groups: readonly string[] = [...outsiders, ...asking.map(({ name }) => name), 'service accounts', 'identities']

/** Tens of thousands of requests on a busy machine may take long. */
const patienceMs = 300_000

let service: TestService
let issuer: TestIssuer
let world: World
const callers = new Map<string, readonly Caller[]>()
/** The cells of this run. */
let plan: Map<Caller, readonly Cell[]>
/** Owner and scope of each token of the workspace, in the order of the list. */
const tokenOwners = new Map<string, { readonly ownerId: string; readonly scope: Scope }>()
let cells = 0
/** The time of the service when everything was set up. */
let startedAt: number

beforeAll(async () => {
  service = await startService({ ...loopbackAllowed, COFFER_SYNC: 'off' }, offline)
  issuer = await startIssuer(() => service.app.services.now())
  const first = await registerOwner(service)
  const expired = await createExpired(service, first)
  const { body } = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
    body: { email: first.email, password },
  })
  const owner = { ...first, session: body.accessToken }
  const { body: main } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const heir = await addUser(service, 'heir@example.com', { workspaceId: main.id, role: 'member' })
  world = await createWorld(service, owner, heir.memberId ?? '')
  const stage = { service, world, issuer }
  await writeOwn(stage, heir, heirsOwn)
  await writeOwn(stage, owner)

  const ownersToken = await makeToken(stage, owner)
  const adminsToken = await makeToken(
    stage,
    await addUser(service, 'a@example.com', { workspaceId: main.id, role: 'admin' }),
  )
  const tokens = { own: ownersToken.id, others: ownersToken.id }
  callers.set('nobody', createNobody(owner, await exchange(service, ownersToken.token), tokens))
  callers.set('expired', dead(expired, tokens))
  callers.set('revoked', await createRevoked(stage, owner, tokens))
  callers.set('strangers', await createStrangers(stage, owner, tokens))
  for (const person of asking) {
    callers.set(person.name, await createCallers(stage, person, owner, ownersToken.id, adminsToken.id))
  }
  callers.set('service accounts', await createServiceCallers(stage, owner, ownersToken.id))
  callers.set('identities', await createIdentities(stage, owner, tokens))
  await readTokenOwners(owner)
  plan = planCells(
    world,
    groups.flatMap((group) => askingIn(group).map((caller) => ({ group, caller, isSample: isSampled(group) }))),
  )
  content = await readContent(service.app.services)
  startedAt = service.app.services.now()
}, patienceMs)
// A JWT lives for a quarter of an hour, and the whole matrix may take longer on a slow machine.
beforeEach(() => {
  service.clock.offsetMs = startedAt - Date.now()
})
afterAll(async () => {
  console.log(`authorisation matrix: ${cells} cells on ${engine}${isDeep ? '' : `, COFFER_TEST_SEED=${seed}`}`)
  await service.stop()
  await issuer.stop()
})

const isSampled = (group: string) => group === 'the owner' || outsiders.some((name) => name === group)

/** A JWT has the permissions of its token: on one engine, only the JWTs of the owner are used. */
function askingIn(group: string): Caller[] {
  const isRepeated = ({ kind }: Caller) => engine === 'postgres' && kind === 'jwt' && !isSampled(group)
  return (callers.get(group) ?? []).filter((caller) => !isRepeated(caller))
}

/** The differences from the expectation, one line each; empty if there are none. */
async function run(cell: Cell, caller: Caller): Promise<string[]> {
  cells++
  const { ask, endpoint, name } = cell
  const answer = await service.call(endpoint.method, ask.path, { ...caller.options, body: ask.body })
  if (answer.status !== cell.status) {
    const words = answer.status < 400 ? '' : answer.text
    return [`${cell.title}: expected ${cell.status}, was ${answer.status} ${words}`]
  }
  if (cell.status !== endpoint.status || endpoint.method !== 'GET') return []
  const expected = expectedIds(caller, name, ask)
  if (!expected) return []
  const known = name === 'listTokens' ? tokenOwners : new Map([...world.containers, ...world.homes, ...otherIds()])
  const shown = [...known.keys()].filter((id) => answer.text.includes(id))
  const outside = name === 'listTokens' ? [...world.containers.keys()].filter((id) => !holds(world, caller, id)) : []
  const leaked = outside.filter((id) => answer.text.includes(id))
  if (leaked.length > 0) return [`${cell.title}: names ${leaked.join()}, out of scope`]
  if (ask.shows && answer.text.includes(heirsOwn)) return [`${cell.title}: shows a value of another person's own`]
  const seesOwn = caller.kind === 'session' || caller.name === 'cli token' || caller.name === 'JWT of cli token'
  const isOwnShown = answer.text.includes(ownValue)
  if (isOwnShown && !seesOwn) return [`${cell.title}: shows a machine a value of a person's own`]
  if (name === 'readSecret' && ask.what === 'by id' && !isOwnShown && seesOwn) return [`${cell.title}: hides one's own`]
  const isExact = shown.toSorted().join() === expected.toSorted().join()
  return isExact ? [] : [`${cell.title}: shows ${shown.join()} and may show ${expected.join()}`]
}

const otherIds = () => [world.share.id, world.syncs.draft, world.syncs.live].map((id) => [id, ''] as const)

const batchSize = 12

async function runAll(batch: readonly Cell[], caller: Caller): Promise<string[]> {
  const wrong: string[] = []
  for (let start = 0; start < batch.length; start += batchSize) {
    const part = batch.slice(start, start + batchSize)
    wrong.push(...(await Promise.all(part.map((cell) => run(cell, caller)))).flat())
  }
  return wrong
}

/** Allowed reads add entries to the audit trail; its heads are kept separately in `trail`. */
async function readContent(services: TestService['app']['services']): Promise<Content> {
  const everything = await readEverything(services)
  return { ...everything, tables: new Map([...everything.tables].filter(([{ name }]) => name !== 'audit_batch')) }
}

type Undone = { readonly changes: readonly Change[]; readonly hasTrailGrown: boolean }
type Effects = (undone: Undone) => string[]

const changesAlone: Effects = ({ changes }) => changes.map(describeChange)

const anyEffect: Effects = (undone) =>
  undone.hasTrailGrown ? [...changesAlone(undone), 'the audit trail grew'] : changesAlone(undone)

/** The content of the database as last read, from which the next cell starts. */
let content: Content

/** Runs cells that must have no effect; if there was one, runs them again one by one to find the cell. */
async function runQuietly(batch: readonly Cell[], caller: Caller, effects: Effects): Promise<string[]> {
  if (batch.length === 0) return []
  const before = content
  const wrong = await runAll(batch, caller)
  if (effects(await undo(before)).length === 0) return wrong
  // A wrong response already explains an effect.
  for (const cell of batch.filter(({ title }) => !wrong.some((line) => line.startsWith(title)))) {
    await run(cell, caller)
    const changes = effects(await undo(before))
    if (changes.length > 0) wrong.push(`${cell.title}: had an effect: ${changes.join('; ').slice(0, 500)}`)
  }
  return wrong.length > 0 ? wrong : [`${caller.name}: requests had an effect together, but none of them alone`]
}

/** Runs a cell that may change something, checks the change and its audit entry, and undoes the change. */
async function runAndUndo(cell: Cell, caller: Caller): Promise<string[]> {
  const { services } = service.app
  // Beyond a few per network, anonymous actions are only counted, so each cell starts a new window.
  Object.assign(services, { strangers: createStrangerRecords(services.now) })
  const wrong = await run(cell, caller)
  const { changes, hasTrailGrown } = await undo(content)
  if (wrong.length > 0) return wrong
  if (changes.length === 0 && !mayChangeNothing.has(cell.name)) wrong.push(`${cell.title}: had no effect`)
  if (!hasTrailGrown) wrong.push(`${cell.title}: is not in the audit trail`)
  return wrong
}

/** POST and DELETE endpoints that are audited but need not change any compared row. */
const mayChangeNothing = new Set<EndpointName>(['exchangeToken', 'readDevice', 'revokeOtherSessions'])

/** Undoes the effects since `before`, and returns them. */
async function undo(before: Content): Promise<Undone> {
  const { services } = service.app
  const after = await readContent(services)
  const changes = changesBetween(before, after)
  const hasTrailGrown = after.trail !== content.trail
  content = changes.length > 0 ? await restoreContent(services, before, after, changes) : after
  return { changes, hasTrailGrown }
}

async function check(caller: Caller): Promise<string[]> {
  const all = plan.get(caller) ?? []
  const reads = all.filter((cell) => isAllowed(cell) && cell.endpoint.method === 'GET')
  const quiet = all.filter((cell) => !isAllowed(cell) || isDry(cell))
  // A dry run and a refused write of values are audited as comparisons; other refused requests leave no audit entry.
  const compares = ({ endpoint }: Cell) => endpoint.area === 'secret' && endpoint.method !== 'GET'
  const wrong = await runQuietly(
    quiet.filter((cell) => !compares(cell)),
    caller,
    anyEffect,
  )
  wrong.push(...(await runQuietly(quiet.filter(compares), caller, changesAlone)))
  wrong.push(...(await runQuietly(reads, caller, changesAlone)))
  for (const cell of all.filter(isWrite)) wrong.push(...(await runAndUndo(cell, caller)))
  return wrong
}

test('every endpoint of the contract has its permission and its requests in the matrix', () => {
  const table: Record<string, readonly Ask[]> = requestTable(world, { own: '', others: '' })
  const missing = endpointNames.filter((name) => !(name in rights) || (table[name]?.length ?? 0) === 0)
  expect(
    missing,
    'add these endpoints to `rights` in test/matrix-right.ts and to `requestTable` in test/request-table.ts',
  ).toEqual([])
})

/** Their success needs a code, an invite or a one-time state: the tests of their routes cover it. */
const succeedElsewhere: readonly EndpointName[] = [
  'register',
  'resetPassword',
  'pollDevice',
  'revokeSession',
  'verifyEmail',
  'confirmEmail',
  'changeEmail',
  'confirmTotp',
  'removeTotp',
  'resetMemberMfa',
  'acceptInvite',
  'declineInvite',
  'planSync',
  'resumeSync',
  'exchangeIdentity',
]

/** A public endpoint without parameters and body: nothing about a request to it can be wrong. */
const refusedToNobody: readonly EndpointName[] = ['readAuthState']

test('every endpoint is called by a permitted and by a refused caller', () => {
  const asked = [...plan.values()].flat()
  const without = (fits: (cell: Cell) => boolean) =>
    endpointNames.filter((endpoint) => !asked.some((cell) => cell.name === endpoint && fits(cell)))
  expect(without(isAllowed)).toEqual(succeedElsewhere)
  expect(without((cell) => !isAllowed(cell))).toEqual(refusedToNobody)
})

test.each(groups)(
  '%s: every route responds as the role table says, and a refusal changes nothing',
  async (group) => {
    const wrong: string[] = []
    const asking = askingIn(group)
    for (const caller of asking) wrong.push(...(await check(caller)))
    expect(asking.length).toBeGreaterThan(3)
    expect(wrong, `${wrong.length} cells are wrong`).toEqual([])
  },
  patienceMs,
)

async function expectAgreement(): Promise<void> {
  const asker = callers.get('the owner')?.[0]
  if (!asker) throw new Error('there is no owner')
  const { count, wrong } = await findDisagreements(service.call, world, asker, plan)
  expect(count).toBeGreaterThan(1_000)
  expect(wrong, `${wrong.length} explanations are wrong`).toEqual([])
}

// An explanation reads the snapshot of the workspace, which does not depend on the engine.
if (engine === 'sqlite') test('an explanation of a right says what the request gets', expectAgreement, patienceMs)

test('the audit trail of the whole run verifies', async () => {
  const { body } = await service.call('GET', '/v1/workspace/main/audit/verify', callers.get('the owner')?.[0]?.options)
  expect(body).toMatchObject({ ok: true })
})
