/**
 * Random workspaces, actors and questions: access.ts and the rules of test/matrix-right.ts, which were written from the
 * specification alone and share no code with it, always agree. A difference is printed as the smallest workspace and
 * question that still show it.
 */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seed } from '../../../../test/dice.ts'
import { startService, type TestService } from '../../../../test/harness.ts'
import { expectedStatus, holdsScope, managesTokens, sees } from '../../../../test/matrix-right.ts'
import {
  type AskingTwice,
  actorKinds,
  askAs,
  buildWorkspace,
  type RandomWorkspace,
  servicesOf,
  workspaceShape,
} from '../../../../test/random-workspace.ts'
import { times } from '../../../../test/tier.ts'
import { isFailure } from '../../failure.ts'
import {
  mayManageAll,
  reachedEnvironments,
  requireEnvironment,
  requireProject,
  requireTeam,
  requireWorkspace,
  seesProject,
  seesTeam,
} from './access.ts'
import { requireScopeWithin } from './scope-grant.ts'

let service: TestService
beforeAll(async () => {
  service = await startService()
})
afterAll(async () => service.stop())

/** Endpoints of every permission, by the place that they are about. */
const ofWorkspace = [
  'readWorkspace',
  'updateWorkspace',
  'deleteWorkspace',
  'handOverWorkspace',
  'listMembers',
  'createInvite',
  'listTeams',
  'createTeam',
  'createProject',
  'listTokens',
  'createToken',
  'revokeToken',
  'listIdentities',
  'createIdentity',
  'listServiceAccounts',
  'createServiceAccount',
  'createServiceToken',
  'readPolicy',
  'updatePolicy',
  'explainAccess',
  'listAudit',
] as const satisfies EndpointName[]
const ofProject = [
  'readProject',
  'updateProject',
  'listEnvironments',
  'createEnvironment',
  'listSecrets',
  'createSecrets',
  'updateSecret',
  'listShares',
  'createShare',
  'listSyncs',
  'startSync',
] as const satisfies EndpointName[]
const ofEnvironment = [
  'updateEnvironment',
  'listRevisions',
  'restoreRevision',
  'startSync',
] as const satisfies EndpointName[]

const question = fc.record({
  kind: fc.constantFrom(...actorKinds),
  actor: fc.nat({ max: 11 }),
  place: fc.nat({ max: 59 }),
  about: fc.oneof(
    fc.record({ endpoint: fc.constantFrom(...ofWorkspace), on: fc.constant('workspace' as const) }),
    fc.record({ endpoint: fc.constant('updateTeam' as const), on: fc.constant('team' as const) }),
    fc.record({ endpoint: fc.constantFrom(...ofProject), on: fc.constant('project' as const) }),
    fc.record({ endpoint: fc.constantFrom(...ofEnvironment), on: fc.constant('environment' as const) }),
    fc.record({ asks: fc.constantFrom('what is seen' as const, 'which scopes may be given' as const) }),
  ),
})
type Question = typeof question extends fc.Arbitrary<infer Value> ? Value : never

async function statusOf(work: () => Promise<unknown>): Promise<number> {
  try {
    await work()
    return 200
  } catch (error) {
    if (isFailure(error)) return error.status
    throw error
  }
}

const ws = 'main'
/** The question, as the server answers it and as the specification does. */
type Answers = { readonly server: unknown; readonly rules: unknown }

async function answer(workspace: RandomWorkspace, asking: AskingTwice, { about, place }: Question): Promise<Answers> {
  const { ctx, caller } = asking
  const world = { containers: workspace.containers, homes: new Map<string, string>(), projects: noProjects }
  if ('asks' in about) {
    return about.asks === 'what is seen' ? whatIsSeen(world, asking) : whichScopes(world, workspace, asking)
  }
  const known = [...workspace.containers.keys()].filter((id) => id.startsWith(about.on))
  const id = [...known, `${about.on}-absent`][place % (known.length + 1)] ?? ''
  const ask = { what: '', path: '', ...(about.on !== 'workspace' && { on: id }) }
  const expected = expectedStatus(world, caller, about.endpoint, ask)
  const server = await statusOf(async () => {
    if (about.on === 'team') return requireTeam(ctx, { ws, id }, endpoints[about.endpoint].permission)
    if (about.on === 'workspace') return requireWorkspace(ctx, { ws }, endpoints[about.endpoint].permission)
    if (about.on === 'project') {
      const prj = place % 2 === 0 ? id : `slug-${id}`
      return requireProject(ctx, { ws, prj }, endpoints[about.endpoint].permission)
    }
    const path = { ws, prj: workspace.containers.get(id) ?? 'project-0', environmentId: id }
    return requireEnvironment(ctx, path, endpoints[about.endpoint].permission)
  })
  return { server, rules: expected === endpoints[about.endpoint].status ? 200 : expected }
}

const noProjects = { right: '', other: '', wrong: '' }
type Rules = Parameters<typeof sees>[0]

async function whatIsSeen(world: Rules, { ctx, caller }: AskingTwice): Promise<Answers> {
  if (caller.grants.length === 0) return { server: '', rules: '' }
  const access = await requireWorkspace(ctx, { ws }, 'workspace:read')
  const { reach, snapshot } = access
  const projects = [...snapshot.projects.values()]
  const seen = [
    ...[...snapshot.teams.values()].filter((team) => seesTeam(reach, team)),
    ...projects.filter((project) => seesProject(reach, project)),
    ...projects.flatMap((project) => reachedEnvironments(reach, project)),
  ]
  const rules = [...world.containers.keys()].filter((id) => sees(world, caller, id))
  return {
    server: [seen.map(({ id }) => id).toSorted(), mayManageAll(access)],
    rules: [rules.toSorted(), managesTokens(caller)],
  }
}

/** Every scope that occurs in the workspace, and every single place. */
async function whichScopes(world: Rules, workspace: RandomWorkspace, { ctx, caller }: AskingTwice): Promise<Answers> {
  if (caller.grants.length === 0) return { server: '', rules: '' }
  const access = await requireWorkspace(ctx, { ws }, 'workspace:read')
  const nothing = { all: false, teams: [], projects: [], environments: [] }
  const kindOf = (id: string) => `${id.split('-')[0]}s`
  const scopes = [
    ...workspace.principals.flatMap(({ grants }) => grants.map(({ scope }) => scope)),
    ...[...workspace.containers.keys()].map((id) => ({ ...nothing, [kindOf(id)]: [id] })),
  ]
  const server = await Promise.all(scopes.map((scope) => statusOf(async () => requireScopeWithin(access, scope))))
  return {
    server,
    rules: scopes.map((scope) => (holdsScope(world, caller, scope) ? 200 : 400)),
  }
}

const questionsPerWorkspace = 25

test('the server decides every question as the specification does', async () => {
  const answers = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(
      workspaceShape,
      fc.array(question, { minLength: 1, maxLength: questionsPerWorkspace, size: 'max' }),
      async (shape, questions) => {
        const workspace = buildWorkspace(shape)
        const services = servicesOf(service.app.services, workspace)
        for (const one of questions) {
          const asking = askAs(services, workspace, one.kind, one.actor)
          const { server, rules } = await answer(workspace, asking, one)
          const words = `${JSON.stringify(one)} by ${JSON.stringify(asking.caller)} in ${JSON.stringify([...workspace.containers])}`
          expect(server, words).toEqual(rules)
          const kind = typeof rules === 'number' ? `${rules}` : 'lists'
          answers.set(kind, (answers.get(kind) ?? 0) + 1)
        }
      },
    ),
    { numRuns: times(400, 5_000), seed, endOnFailure: false },
  )
  const count = [...answers.values()].reduce((sum, one) => sum + one, 0)
  console.log(`access: ${count} questions, COFFER_TEST_SEED=${seed}`, Object.fromEntries(answers))
  expect(count).toBeGreaterThan(times(3_000, 50_000))
  // Each answer occurs often enough to mean something.
  for (const kind of ['200', '403', '404', 'lists']) expect(answers.get(kind)).toBeGreaterThan(count / 20)
})
