/** Large reads are made in portions, one a turn for all of them, and hold up no small request. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createToken, registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../test/secret-project.ts'
import { until } from '../../../test/wait.ts'
import { createLongWork, type LongWork } from '../long-work.ts'

const atOnce = 16
const secrets = 2_200
const deadlineMs = 60_000

let service: TestService
let project: SecretProject
let session: string
/** Different credentials, so that none is answered from the cache of another. */
const tokens: string[] = []

/** Turns of the event loop so far. */
let turn = 0
let counter: NodeJS.Immediate | undefined
/** The turn of each portion. */
let portions: number[] = []
/** Long work waits for it while it is set. */
let gate: PromiseWithResolvers<void> | undefined
let waiting = 0

/** Every step is the end of a portion, and they are counted. */
function createCounted(): LongWork {
  const real = createLongWork()
  const nextPortion = async () => {
    waiting++
    await gate?.promise
    await real.nextPortion()
    portions.push(turn)
  }
  return { ...real, giveWay: nextPortion, nextPortion }
}

function countTurns(): void {
  turn++
  counter = setImmediate(countTurns)
}

beforeAll(async () => {
  service = await startService({}, { longWork: createCounted() })
  ;({ session } = await registerOwner(service))
  project = await createSecretProject(service, session)
  for (const environment of ['development', 'staging']) {
    const values = Array.from({ length: secrets }, (_, index): [string, string] => {
      return [`KEY_${index}`, index % 2 === 0 ? `${environment} ${index}` : `\${KEY_${index - 1}}`]
    })
    await project.set(environment, Object.fromEntries(values.map(([key]) => [key, `${environment} before`])))
    await project.set(environment, Object.fromEntries(values))
  }
  for (let index = 0; index < atOnce; index++) tokens.push((await createToken(service, session, {})).token)
})
afterAll(() => service.stop())

beforeEach(() => {
  portions = []
  waiting = 0
  gate = Promise.withResolvers()
  countTurns()
})
afterEach(() => {
  gate?.resolve()
  gate = undefined
  clearImmediate(counter)
})

test.each([
  ['a list of values', '/secret?environmentId=development', 24],
  ['a list of several environments', '/secret', 50],
  ['a list with references resolved', '/secret?environmentId=development&resolve=true', 30],
  ['a list of names', '/secret?view=keys', 60],
  ['a list that is described', '/secret?view=cells', 60],
  ['a search by name', '/secret?q=KEY', 50],
  ['an export', '/secret/export?environmentId=development&resolve=true', 26],
  ['a difference of environments', '/secret/diff?from=development&to=staging&values=true', 42],
  ['a difference of revisions', '/secret/diff?from=development@1&to=development&values=true', 41],
  ['revisions', '/environment/ENVIRONMENT/revision', 4],
])(
  '%s: 16 at once take portions in turns of their own, and a small read is answered meanwhile',
  async (_, path, least) => {
    let answered = 0
    const large = tokens.map(async (token) => {
      const { status } = await project.ask(
        'GET',
        path.replace('ENVIRONMENT', project.idOf('development')),
        undefined,
        token,
      )
      answered++
      return status
    })
    await until(() => waiting === atOnce || undefined, deadlineMs, 'all wait for a portion')
    const small = await project.ask('GET', '/secret/KEY_0?environmentId=development')
    expect([small.status, answered, portions.length]).toEqual([200, 0, 0])
    gate?.resolve()
    expect(new Set(await Promise.all(large))).toEqual(new Set([200]))
    expect(new Set(portions).size).toBe(portions.length)
    expect(portions.length / atOnce).toBeGreaterThanOrEqual(least)
  },
)
