/** Cases that use something up, or that change more than one value: what they need is made anew before each run. */
import { type Case, openCase, type Plan, readers, writers } from './case.ts'
import { bearer, call, createProject, makeMany, type World } from './seed.ts'

/** Tokens in one cold run: within what one person may have in a workspace. */
const coldTokens = 900
/** A share opens at most a hundred times. */
const sharesPerRun = 200
const importProjects = 20
const importers = 4

/** Makes values that nobody has used before, so that each has to be looked up; tokens of an earlier run get new ones. */
function createColdTokens({ service, seeded: { session } }: World): (count: number) => Promise<string[]> {
  const path = '/v1/workspace/main/tokens'
  const ids: string[] = []
  return (count) =>
    makeMany(count, async (index) => {
      const known = ids[index]
      if (known !== undefined) return (await call(service, 'POST', `${path}/${known}/rotate`, session, {})).token
      const wanted = { name: `cold ${index}`, permission: 'read', scope: { all: true }, expiresIn: '24h' }
      const { id, token } = await call(service, 'POST', path, session, wanted)
      ids[index] = id
      return token
    })
}

export const coldToken: Plan = {
  name: 'token, cold',
  async open(world): Promise<Case> {
    const makeTokens = createColdTokens(world)
    const path = '/v1/workspace/main/project'
    const headers = bearer(world.seeded.token)
    const load = { path, headers, bearers: await makeTokens(1), amount: coldTokens, connections: readers }
    const opened = await openCase(world, this.name, load)
    // As many as take a second or so: it has nothing to forget.
    const bare = { ...opened.bare, amount: coldTokens * 10 }
    return { ...opened, bare, renew: async () => ({ bearers: await makeTokens(coldTokens) }) }
  },
}

export const exchange: Plan = {
  name: 'exchange a token for a JWT',
  isDurable: true,
  open: (world) =>
    openCase(world, exchange.name, {
      path: '/v1/auth/exchange',
      method: 'POST',
      headers: bearer(world.seeded.token),
      connections: readers,
    }),
}

/** New names in every request. */
export const importThousand: Plan = {
  name: 'import 1,000',
  minSeconds: 3,
  async open(world) {
    const made = await makeMany(importProjects, (index) => createProject(world, `import-${index}`, 0))
    const secrets = Array.from({ length: 1_000 }, (_, index) => ({ key: `KEY_${index}_§`, value: `value ${index}` }))
    const paths = made.map(({ path }) => `${path}/secret`)
    return openCase(world, this.name, {
      path: paths[0] ?? '',
      paths,
      method: 'POST',
      headers: bearer(world.seeded.writer),
      body: JSON.stringify({ environments: ['development'], secrets }),
      connections: importers,
    })
  },
}

const makeShares = ({ service, seeded }: World, count: number) =>
  makeMany(count, async () => {
    const wanted = { content: 'a text of a few words, shared once', expiresIn: 3_600, maxViews: 100 }
    const path = '/v1/workspace/main/project/api/secret-share'
    return `/v1/share/${(await call(service, 'POST', path, seeded.session, wanted)).token}/view`
  })

export const openShare: Plan = {
  name: 'open a share',
  isDurable: true,
  async open(world) {
    const paths = await makeShares(world, 1)
    const load = { path: paths[0] ?? '', paths, method: 'POST', body: '{}', connections: writers }
    const opened = await openCase(world, this.name, load)
    return { ...opened, renew: async () => ({ paths: await makeShares(world, sharesPerRun) }) }
  },
}
