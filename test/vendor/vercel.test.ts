import { Vercel } from '@vercel/sdk'
import { describe, expect, test } from 'vitest'
import { isFault } from '../../server/src/providers/fault.ts'
import { ownerText } from '../../server/src/providers/provider.ts'
import { vercel } from '../../server/src/providers/vercel.ts'
import { describeProvider } from './conformance.ts'
import { type FakeVercel, fakeVercel } from './fake/vercel.ts'
import { type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(vercel, fakeVercel, { names })
describeProvider(vercel, () => fakeVercel('production,preview'), { names })
describeProvider(vercel, () => fakeVercel('env_fakestaging'), { names })
describeProvider(vercel, () => fakeVercel('preview', 'feature/one'), { names })

async function playing(fake: FakeVercel, work: (running: RunningFake) => Promise<void>): Promise<void> {
  const running = await startFake(fake)
  try {
    await work(running)
    expect(fake.violations).toEqual([])
  } finally {
    await running.close()
  }
}

const syncId = '0199a000-0000-7000-8000-000000000001'

test.each([
  ['production', undefined, { target: ['production' as const] }],
  ['preview', 'feature/one', { target: ['preview' as const], gitBranch: 'feature/one' }],
  ['env_fakestaging', undefined, { target: [], customEnvironmentIds: ['env_fakestaging'] }],
])(
  'the vendor’s SDK works against the fake and sends the same requests as we do (%s)',
  async (environments, branch, place) => {
    const theirs = await startFake(fakeVercel(environments, branch), { plain: true })
    const client = new Vercel({ bearerToken: theirs.fake.credential.token ?? '', serverURL: theirs.url })
    const at = { idOrName: 'prj_fake0001', teamId: 'team_fake0001' }
    const bodyOf = (key: string, value: string) => ({
      key,
      value,
      type: 'sensitive' as const,
      ...place,
      comment: ownerText(syncId),
    })
    await client.projects.filterProjectEnvs(at)
    const made = await client.projects.createProjectEnv({
      ...at,
      requestBody: [bodyOf('ALPHA', 'one'), bodyOf('BETA', 'two')],
    })
    expect(made.failed).toEqual([])
    await client.projects.filterProjectEnvs(at)
    await client.projects.createProjectEnv({ ...at, upsert: 'true', requestBody: [bodyOf('ALPHA', 'three')] })
    const listed = await client.projects.filterProjectEnvs(at)
    const envs = 'envs' in listed ? listed.envs : []
    expect(envs.map(({ key }) => key)).toEqual(['ALPHA', 'BETA'])
    const ids = envs.flatMap(({ key, id }) => (key === 'BETA' && id !== undefined ? [id] : []))
    const removed = await client.projects.batchRemoveProjectEnv({ ...at, requestBody: { ids } })
    expect(removed).toEqual({ deleted: 1, ids })

    const ours = await startFake(fakeVercel(environments, branch))
    const connection = connectionTo(ours)
    await applyAll(vercel, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
    await applyAll(vercel, connection, [update('ALPHA', 'three')])
    await applyAll(vercel, connection, [remove({ name: 'BETA' })])
    const wire = ({ method, path, query, headers, json }: (typeof ours.requests)[number]) => ({
      method,
      path,
      query: [...query].sort(),
      authorization: headers.authorization,
      json,
    })
    expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
    expect(theirs.fake.violations).toEqual([])
    await Promise.all([theirs.close(), ours.close()])
  },
)

test('the vendor’s SDK reads the account, environments, teams and projects by the same requests as we do', async () => {
  const theirs = await startFake(fakeVercel(), { plain: true })
  const client = new Vercel({ bearerToken: theirs.fake.credential.token ?? '', serverURL: theirs.url })
  expect((await client.user.getAuthUser())?.user.email).toBe('ops@example.com')
  const at = { idOrName: 'prj_fake0001', teamId: 'team_fake0001' }
  const { environments } = await client.environment.getProjectsByIdOrNameCustomEnvironments(at)
  expect(environments?.map(({ id }) => id)).toEqual(['env_fakestaging'])
  // The SDK rejects these responses, as the fake stores only a part of a team and a project; only the requests matter.
  await client.teams.getTeams({ limit: 100, until: 1 }).catch(() => undefined)
  await client.projects.getProjects({ limit: '100', from: '1', teamId: 'team_fake0001' }).catch(() => undefined)

  const fake = fakeVercel()
  await playing(fake, async (running) => {
    fake.pageSize = 1
    expect(await vercel.verify(connectionTo(running, { target: {} }))).toBe('ops@example.com')
    for (const id of ['environments', 'team', 'project']) {
      const field = vercel.target.find((candidate) => candidate.id === id)
      if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
      const offered = await field.options(connectionTo(running, { target: id === 'team' ? {} : fake.target }))
      expect(offered?.map(({ value }) => value)).toContain(fake.target[id])
    }
    // For teams and projects, the SDK requested the second page above.
    const last = new Map(running.requests.map(({ path, query }) => [path, [...query].sort()]))
    expect([...last]).toEqual(theirs.requests.map(({ path, query }) => [path, [...query].sort()]))
  })
  await theirs.close()
})

describe('records that cover several environments', () => {
  test.each([
    ['create', create('ALPHA', 'one')],
    ['update', update('ALPHA', 'one')],
    ['delete', remove({ name: 'ALPHA', id: 'env1' })],
  ])('are never changed: %s is a conflict', async (_title, op) => {
    const fake = fakeVercel()
    await playing(fake, async (running) => {
      fake.add({ key: 'ALPHA', value: 'theirs', target: ['production', 'preview'], comment: ownerText(syncId) })
      const results = await applyAll(vercel, connectionTo(running), [op])
      expect(results.map((result) => 'fault' in result && isFault(result.fault, 'conflict'))).toEqual([true])
      expect(fake.records).toMatchObject([{ value: 'theirs', target: ['production', 'preview'] }])
      expect(running.requests.every(({ method }) => method === 'GET')).toBe(true)
      expect(await listAll(vercel, connectionTo(running))).toEqual([{ name: 'ALPHA', isOurs: false }])
    })
  })

  test('several records of one name in our environments are one conflict', async () => {
    const fake = fakeVercel('production,preview')
    await playing(fake, async (running) => {
      fake.add({ key: 'ALPHA', value: 'p', target: ['production'] })
      fake.add({ key: 'ALPHA', value: 'v', target: ['preview'] })
      expect(await listAll(vercel, connectionTo(running))).toEqual([{ name: 'ALPHA', isOurs: false }])
      const [result] = await applyAll(vercel, connectionTo(running), [update('ALPHA', 'one')])
      expect(result && 'fault' in result && isFault(result.fault, 'conflict')).toBe(true)
    })
  })

  test('the same name in other environments or for one branch is ignored', async () => {
    const fake = fakeVercel('preview')
    await playing(fake, async (running) => {
      fake.add({ key: 'ALPHA', value: 'd', target: ['development'] })
      fake.add({ key: 'ALPHA', value: 'b', target: ['preview'], gitBranch: 'feature/one' })
      expect(await listAll(vercel, connectionTo(running))).toEqual([])
      await applyAll(vercel, connectionTo(running), [create('ALPHA', 'one')])
      expect(fake.records.map(({ value }) => value)).toEqual(['d', 'b', 'one'])
      await applyAll(vercel, connectionTo(running), [remove({ name: 'ALPHA' })])
      expect(fake.records.map(({ value }) => value)).toEqual(['d', 'b'])
    })
  })
})

test('a record created concurrently by someone else is not overwritten', async () => {
  const fake = fakeVercel()
  await playing(fake, async (running) => {
    running.injectFailure = ({ method }) => {
      if (method === 'POST') fake.tamper('ALPHA', 'theirs')
      return undefined
    }
    const results = await applyAll(vercel, connectionTo(running), [create('ALPHA', 'one'), create('BETA', 'two')])
    expect(results.map((result) => 'fault' in result && isFault(result.fault, 'conflict'))).toEqual([true, false])
    expect(fake.state()).toEqual(
      new Map([
        ['ALPHA', 'theirs'],
        ['BETA', 'two'],
      ]),
    )
  })
})

test('a create does not overwrite a record without our comment, but an update of an adopted one does', async () => {
  const fake = fakeVercel()
  await playing(fake, async (running) => {
    fake.tamper('ALPHA', 'theirs')
    const [refused] = await applyAll(vercel, connectionTo(running), [create('ALPHA', 'one')])
    expect(refused && 'fault' in refused && isFault(refused.fault, 'conflict')).toBe(true)
    await applyAll(vercel, connectionTo(running), [update('ALPHA', 'one')])
    expect(fake.records).toMatchObject([{ value: 'one', comment: ownerText(syncId) }])
  })
})

test.each([
  ['production', undefined, 'sensitive'],
  ['production', 'encrypted', 'encrypted'],
  ['development', undefined, 'encrypted'],
  ['development', 'sensitive', 'encrypted'],
])('in %s with the option type %s, a variable has the type %s', async (environments, type, expected) => {
  const fake = fakeVercel(environments)
  await playing(fake, async (running) => {
    const options = type === undefined ? {} : { type }
    await applyAll(vercel, connectionTo(running, { options }), [create('ALPHA', 'one')])
    expect(fake.records).toMatchObject([{ type: expected }])
  })
})

test('a token that cannot read production cannot push there', async () => {
  const fake = fakeVercel()
  await playing(fake, async (running) => {
    fake.tamper('ALPHA', 'theirs')
    fake.hideProduction()
    await expect(listAll(vercel, connectionTo(running))).rejects.toMatchObject({ kind: 'scope' })
    await expect(applyAll(vercel, connectionTo(running), [create('BETA', 'x')])).rejects.toMatchObject({
      kind: 'scope',
    })
  })
})

test('the end of a rate limit is read from the body', async () => {
  const fake = fakeVercel()
  await playing(fake, async (running) => {
    const body = {
      error: { code: 'rate_limited', message: 'x', limit: { total: 60, remaining: 0, reset: 1_760_000_030 } },
    }
    running.injectFailure = () => ({ kind: 'answer', answer: { status: 429, body } })
    const fault = await listAll(vercel, connectionTo(running, { now: () => 1_760_000_000_000 })).catch((error) => error)
    expect(isFault(fault, 'rate') && fault.facts.retryAfterMs).toBe(30_000)
  })
})

test('the wizard asks for names that the token may not list, but reports a rejected token', async () => {
  const fake = fakeVercel()
  await playing(fake, async (running) => {
    for (const field of vercel.target) {
      if (field.kind !== 'select' || typeof field.options !== 'function' || field.id === 'environments') continue
      running.injectFailure = () => ({ kind: 'answer', answer: { status: 403, body: {} } })
      expect(await field.options(connectionTo(running))).toBeUndefined()
      running.injectFailure = undefined
      const refused = field.options(connectionTo(running, { credential: fake.wrongCredential }))
      await expect(refused).rejects.toMatchObject({ kind: 'auth' })
    }
  })
})

test('the default environments are offered even if the token may not list the others', async () => {
  await playing(fakeVercel(), async (running) => {
    const field = vercel.target.find(({ id }) => id === 'environments')
    if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
    running.injectFailure = () => ({ kind: 'answer', answer: { status: 403, body: {} } })
    expect((await field.options(connectionTo(running)))?.length).toBe(4)
  })
})

test.each([
  ['team', 'acme'],
  ['team', 'team_1&teamId=team_2'],
  ['project', '../teams'],
  ['project', '..'],
  ['environments', 'staging'],
  ['environments', 'production,'],
  ['gitBranch', 'a b'],
])('%s rejects %s', (id, value) => {
  const field = vercel.target.find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})
