/** A request that waits while the policy changes, or while its caller stops meeting it, is refused in the end. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import { password, type TestService } from '../../../../../test/harness.ts'
import { holdOnce } from '../../../../../test/hold.ts'
import { type PolicyWorld, personalWays, startPolicyWorld, statuses } from '../../../../../test/policy-world.ts'

let world: PolicyWorld
let service: TestService

beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
})
afterAll(() => world.stop())

const value = 'a value that must not leave'

async function newStage() {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  const written = await service.call('POST', `${workspace.root}/project/api/secret`, {
    token: workspace.owner.session,
    body: { environments: [workspace.environmentId], secrets: [{ key: 'KEY', value }] },
  })
  expect(written.status, written.text).toBe(201)
  return { ...workspace, person, credentials: await workspace.ways(person) }
}

/** Reads the secrets; the change happens after they were loaded and before the response is sent. */
async function readDuring(read: () => Promise<{ status: number; text: string }>, change: () => Promise<unknown>) {
  const loading = holdOnce(service.app.services.store.secrets, 'list')
  const answer = read()
  await loading.isDone
  await change()
  loading.release()
  return answer
}

test.each(personalWays)('a policy that is set during a read with a %s stops the response', async (way) => {
  const { credentials, read, set } = await newStage()
  const answer = await readDuring(
    () => read(credentials[way]),
    () => set({ requireMfa: true }),
  )
  expect(answer.status, answer.text).toBe(403)
  expect(answer.text).not.toContain(value)
})

test.each(personalWays)('a second factor that is removed during a read with a %s stops the response', async (way) => {
  const stage = await newStage()
  const { credentials, person, read, set, root } = stage
  const app = await setUpTotp(service, person.session)
  // The enrolment ended the session of the command line.
  if (way === 'CLI session') credentials[way] = await world.logInDevice(person.session)
  await set({ requireMfa: true })
  expect(await statuses(stage, { [way]: credentials[way] })).toEqual({ [way]: '200' })
  // The response must not come from the cache, which has no wait.
  service.app.services.snapshots.clear()
  const answer = await readDuring(
    () => read(credentials[way]),
    async () => {
      const body = { code: app.recoveryCodes[0], password }
      const removed = await service.call('DELETE', '/v1/me/mfa/totp', { token: person.session, body })
      expect(removed.status, removed.text).toBe(200)
    },
  )
  expect(answer.status, answer.text).toBe(403)
  expect(answer.text).not.toContain(value)
  expect((await service.call('GET', `${root}/team`, { token: credentials[way] })).status).toBe(403)
})

test('concurrent changes leave one of the policies that were sent, and an entry for each', async () => {
  const { id, root, owner, put } = await world.newWorkspace()
  const days = Array.from({ length: 10 }, (_, index) => index + 1)
  const answers = await Promise.all(days.map((maxTokenDays) => put({ maxTokenDays })))
  expect(answers.map(({ status }) => status)).toEqual(days.map(() => 200))
  const { body: policy } = await service.call<{ maxTokenDays: number }>('GET', `${root}/policy`, {
    token: owner.session,
  })
  const { body: entries } = await service.call<{ before: unknown; after: { maxTokenDays: number } }[]>(
    'GET',
    `${root}/audit?entity=${id}&limit=10`,
    { token: owner.session },
  )
  expect(entries.map(({ after }) => after.maxTokenDays).toSorted((a, b) => a - b)).toEqual(days)
  expect(entries[0]?.after).toEqual(policy)
  for (const [index, { before }] of entries.slice(0, -1).entries()) expect(before).toEqual(entries[index + 1]?.after)
})
