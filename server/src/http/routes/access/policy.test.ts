/** Explanations and the overview name the rule of the policy that stands in the way, and agree with requests about it. */
import type { AccessRow, Explanation } from '@coffer/contract/access'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import type { TestService } from '../../../../../test/harness.ts'
import { from, inside, outside, type PolicyWorld, startPolicyWorld } from '../../../../../test/policy-world.ts'

type Workspace = Awaited<ReturnType<PolicyWorld['newWorkspace']>>

let world: PolicyWorld
let service: TestService
beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
})
afterAll(() => world.stop())
afterEach(() => {
  service.clock.offsetMs = 0
})

type Asking = { readonly session?: string; readonly ip?: string; readonly action?: string }

async function explain({ root, owner, environmentId }: Workspace, actor: string, asking: Asking = {}) {
  const { session = owner.session, ip, action = 'secret:read' } = asking
  const query = new URLSearchParams({ actor, action, environment: environmentId, ...(ip && { ip }) })
  const answer = await service.call<Explanation>('GET', `${root}/explain?${query}`, {
    token: session,
    headers: from(inside),
  })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function overview({ root, owner }: Workspace, session = owner.session): Promise<AccessRow[]> {
  const answer = await service.call<AccessRow[]>('GET', `${root}/access`, { token: session, headers: from(inside) })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const problems = (rows: readonly AccessRow[]) =>
  Object.fromEntries(rows.map(({ actor, problem, environments }) => [actor.name, [environments.length, problem]]))

test('a missing second factor refuses the person and their tokens', async () => {
  const workspace = await world.newWorkspace()
  const { owner } = workspace
  const person = await workspace.join()
  const token = await workspace.token(person.session, { name: 'ci' })
  await setUpTotp(service, owner.session)
  await workspace.set({ requireMfa: true })
  const reason = `the workspace requires a second factor, and ${person.email} has none.`
  for (const [id, credential, name] of [
    [person.id, person.session, person.email],
    [token.id, token.token, 'The token ci'],
  ] as const) {
    const answer = await explain(workspace, id)
    expect(answer).toMatchObject({ allowed: false, status: (await workspace.read(credential)).status, grant: null })
    expect(answer.status).toBe(403)
    expect(answer.reasons[0]).toBe(`${name} may not read secrets in development of api: ${reason}`)
  }
  const problem = `T${reason.slice(1)}`
  expect(problems(await overview(workspace))).toEqual({
    [owner.email]: [3, null],
    [person.email]: [0, problem],
    ci: [0, problem],
  })
  expect(await explain(workspace, owner.id)).toMatchObject({ allowed: true })
  await setUpTotp(service, person.session)
  expect(await explain(workspace, token.id)).toMatchObject({ allowed: true })
  expect(problems(await overview(workspace))).toMatchObject({ [person.email]: [3, null], ci: [3, null] })
})

test('an address that is not confirmed refuses the person', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  await world.confirmEmail(workspace.owner)
  await workspace.set({ requireVerifiedEmail: true })
  expect((await explain(workspace, person.email)).reasons[0]).toContain(
    `the workspace requires a confirmed email address, and that of ${person.email} is not confirmed.`,
  )
  await world.confirmEmail(person)
  expect(await explain(workspace, person.email)).toMatchObject({ allowed: true })
})

test('allowed addresses are applied to the address that is named, and described otherwise', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  await workspace.set({ allowedIps: ['198.51.100.0/24'] }, undefined, inside)
  const unnamed = await explain(workspace, person.id)
  expect(unnamed.allowed).toBe(true)
  expect(unnamed.reasons.at(-1)).toBe(
    'The workspace accepts requests from 198.51.100.0/24 only: no address was named, so that was not checked.',
  )
  expect(problems(await overview(workspace))).toMatchObject({ [person.email]: [3, null] })
  for (const ip of [inside, outside]) {
    const real = await workspace.read(person.session, ip)
    expect(await explain(workspace, person.id, { ip })).toMatchObject({
      allowed: real.status === 200,
      status: real.status,
    })
  }
  expect((await explain(workspace, person.id, { ip: outside })).reasons[0]).toContain(
    `the workspace accepts requests from 198.51.100.0/24 only, not from ${outside}.`,
  )
})

test('a token that is too old for the policy is refused', async () => {
  const workspace = await world.newWorkspace()
  const old = await workspace.token((await workspace.join()).session, { name: 'old', expiresIn: 'never' })
  service.clock.offsetMs = 25 * 60 * 60 * 1000
  const session = await world.logIn(workspace.owner)
  await workspace.set({ maxTokenDays: 1 }, session)
  const answer = await explain(workspace, old.id, { session })
  expect(answer).toMatchObject({ allowed: false, status: 403 })
  expect((await workspace.read(old.token)).status).toBe(403)
  const reason = 'the workspace accepts tokens for 1 day after their creation, and this one is older.'
  expect(answer.reasons[0]).toBe(`The token old may not read secrets in development of api: ${reason}`)
  expect(problems(await overview(workspace, session))).toMatchObject({ old: [0, `T${reason.slice(1)}`] })
})

test('a policy without sharing refuses shares, and nothing else', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  expect(await explain(workspace, person.id, { action: 'share:write' })).toMatchObject({ allowed: true })
  await workspace.set({ sharing: { enabled: false, maxDays: 30, endToEndOnly: false } })
  const answer = await explain(workspace, person.id, { action: 'share:write' })
  expect(answer).toMatchObject({ allowed: false, status: 403 })
  expect(answer.reasons[0]).toContain('the response is "Sharing is switched off in this workspace."')
  expect(await explain(workspace, person.id)).toMatchObject({ allowed: true })
})
