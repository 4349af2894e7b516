/** Cases that use up their data or change more than one value: the data is created again before each run. */
import { type Case, openCase, type Plan, readers, writers } from './case.ts'
import { apiOf, bearer, createProject, makeMany, type World } from './seed.ts'

/** Tokens per cold run, within the limit of tokens per person in a workspace. */
const coldTokens = 900
/** Each share can be opened 100 times. */
const sharesPerRun = 200
const importProjects = 20
const importers = 4

/** Creates tokens that were never used, so that each needs a lookup; later runs rotate the tokens of earlier ones. */
function createColdTokens({ service, seeded: { session } }: World): (count: number) => Promise<string[]> {
  const { token } = apiOf(service, session)
  const ids: string[] = []
  return (count) =>
    makeMany(count, async (index) => {
      const known = ids[index]
      if (known !== undefined) return (await token.rotate({ ws: 'main', id: known })).token
      const wanted = { name: `cold ${index}`, permission: 'read', scope: { all: true }, expiresIn: '24h' } as const
      const created = await token.create({ ws: 'main' }, wanted)
      ids[index] = created.id
      return created.token
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
    // The bare server caches nothing; this many requests take it about a second.
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

/** Every request creates new keys. */
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

/** A project may have 1,000 active shares, fewer than all rounds need. */
const sharing = ['api', 'web', 'worker']

const makeShares = ({ service, seeded }: World, count: number) =>
  makeMany(count, async (index) => {
    const wanted = { content: 'a text of a few words, shared once', expiresIn: 3_600, maxViews: 100 }
    const prj = sharing[index % sharing.length] ?? ''
    const { token } = await apiOf(service, seeded.session).share.create({ ws: 'main', prj }, wanted)
    return `/v1/share/${token}/view`
  })

export const openShare: Plan = {
  name: 'open a share',
  isDurable: true,
  isSlowToWarmUp: true,
  async open(world) {
    const paths = await makeShares(world, 1)
    const load = { path: paths[0] ?? '', paths, method: 'POST', body: '{}', connections: writers }
    const opened = await openCase(world, this.name, load)
    return { ...opened, renew: async () => ({ paths: await makeShares(world, sharesPerRun) }) }
  },
}
