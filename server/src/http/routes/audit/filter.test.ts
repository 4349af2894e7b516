/** The filters environment, entity and q find every entry about an environment or secret, and no other. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bulk, createAuditedSteps, path } from '../../../../../test/audited-step.ts'
import { createProject, createTeam, createToken, type TestService } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

const { start, stop, done, secretIds, find, findAll, named, act } = createAuditedSteps()
let service: TestService
let session: string
let project: SecretProject
let other: SecretProject

beforeAll(async () => {
  ;({ service, session, project, other } = await start())
})
afterAll(stop)

const work = { action: 'VIEW' }
const inProduction = ['list', 'list of two', 'resolved', 'exported', 'one', 'diff', 'share', 'share opened']

describe('the filter environment', () => {
  test('finds every read of the environment, alone, with others or by reference', async () => {
    expect(await named({ ...work, environment: project.idOf('production') })).toEqual(inProduction)
    expect(await named({ ...work, environment: project.idOf('staging') })).toEqual([
      'list',
      'list of one',
      'resolved',
      'exported',
      'one',
      'diff of one',
    ])
    expect(await named({ ...work, environment: project.idOf('development') })).toEqual([
      'list',
      'list of two',
      'one',
      'diff',
      'list after',
    ])
    expect(await named({ ...work, environment: other.idOf('production') })).toEqual(['list elsewhere'])
  })

  test('finds every write to the environment', async () => {
    const writesIn = async (name: string) => {
      const created = await named({ action: 'CREATE', environment: project.idOf(name) })
      return [...created, ...(await named({ action: 'UPDATE', environment: project.idOf(name) }))]
    }
    expect(await writesIn('production')).toEqual(['bulk', 'one in two', 'share', 'rename'])
    expect(await writesIn('staging')).toEqual(['one in two', 'import'])
    expect(await writesIn('development')).toEqual(['bulk', 'batch', 'rename'])
  })

  test('finds reminders of values in the environment, and no others', async () => {
    const place = await createSecretProject(service, session)
    await act('made', place, 'POST', '/secret', bulk(['development', 'staging'], { A: '1' }))
    const reminder = { environmentId: 'staging', type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
    await act('put', place, 'PUT', '/secret/A/reminder', reminder)
    await act('ended', place, 'DELETE', '/secret/A/reminder?environmentId=staging')
    expect(await named({ environment: place.idOf('staging') })).toEqual(['made', 'put', 'ended'])
    expect(await named({ environment: place.idOf('development') })).toEqual(['made'])
  })

  test('an entry of several environments lists their ids, an entry of one environment has it in environmentId', async () => {
    const entries = await find({ project: project.slug, limit: '200' })
    const entryOf = (what: string) => entries.find(({ requestId }) => done.get(requestId) === what)
    const ids = ['development', 'production'].map(project.idOf)
    expect(entryOf('bulk')).toMatchObject({ environmentId: null, after: { environmentIds: ids } })
    expect(entryOf('list of two')).toMatchObject({ environmentId: null, after: { environmentIds: ids } })
    expect(entryOf('resolved')).toMatchObject({
      environmentId: project.idOf('staging'),
      after: { environmentIds: ['staging', 'production'].map(project.idOf) },
    })
    for (const [what, name] of [
      ['list of one', 'staging'],
      ['diff of one', 'staging'],
      ['share', 'production'],
      ['share opened', 'production'],
    ] as const) {
      expect(entryOf(what), what).toMatchObject({ environmentId: project.idOf(name) })
      expect(entryOf(what)?.after, what).not.toHaveProperty('environmentIds')
    }
  })

  test('accepts an id in any case, and a name together with the project', async () => {
    const id = project.idOf('production').toUpperCase()
    expect(await named({ ...work, environment: id })).toEqual(inProduction)
    for (const where of [project.slug, project.id, project.id.toUpperCase()]) {
      expect(await named({ ...work, project: where, environment: 'production' })).toEqual(inProduction)
      expect(await named({ ...work, project: where, environment: 'Production' })).toEqual(inProduction)
    }
    expect(await named({ ...work, project: other.slug, environment: project.idOf('production') })).toEqual([])
  })

  test.each([
    ['environment=production', 400, /^environment: /],
    [`environment=nowhere&project=secrets-1`, 404, /^environment: /],
    ['project=nowhere', 404, /^project: /],
    ['project=nowhere&format=ndjson', 404, /^project: /],
    [`project=${crypto.randomUUID()}&environment=production`, 404, /^environment: /],
  ])('refuses %s instead of returning no entries', async (query, status, message) => {
    const answer = await service.call<{ message: string }>('GET', `${path}?${query}`, { token: session })
    expect(answer.status).toBe(status)
    expect(answer.body.message).toMatch(message)
  })

  test('finds the entries of a deleted environment by its id', async () => {
    const gone = await createSecretProject(service, session)
    await act('before the end', gone, 'POST', '/secret', bulk(['development', 'staging'], { D: 'd' }))
    await gone.ask('DELETE', '')
    expect(await named({ environment: gone.idOf('staging'), q: 'D' })).toContain('before the end')
    expect(await named({ project: gone.id, environment: gone.idOf('staging') })).toEqual(['before the end'])
  })
})

describe('the filter entity', () => {
  // A comparison with values is recorded as a comparison and as a read.
  const diff = ['diff', 'diff']
  const withD = [
    'bulk',
    'list',
    'list of two',
    'resolved',
    'exported',
    'batch',
    ...diff,
    'share',
    'share',
    'list after',
  ]

  test('finds a secret by its key in requests for several secrets', async () => {
    expect(await named({ entity: 'D', project: project.slug })).toEqual(withD)
    expect(await named({ entity: 'D', project: other.slug })).toEqual(['elsewhere', 'list elsewhere'])
    expect(await named({ entity: 'd' })).toEqual([])
  })

  test('finds a secret by its id, only in its own project', async () => {
    const id = secretIds.get('D') ?? ''
    expect(await named({ entity: id })).toEqual(withD)
    expect(await named({ entity: id.toUpperCase() })).toEqual(withD)
  })

  test('finds a renamed secret by id under both names, and by each name under that name', async () => {
    const before = ['bulk', 'list', 'list of two', 'batch', ...diff, 'share', 'share', 'rename']
    expect(await named({ entity: secretIds.get('E') ?? '' })).toEqual([...before, 'list after'])
    expect(await named({ entity: 'E', project: project.slug })).toEqual(before)
    expect(await named({ entity: 'RENAMED' })).toEqual(['rename', 'list after'])
  })

  test('finds a secret renamed without a value by id under both names', async () => {
    const place = await createSecretProject(service, session)
    await act('made', place, 'POST', '/secret', bulk(['development'], { OLD: '1' }))
    await act('read', place, 'GET', '/secret')
    const { id } = await place.must<Secret>('GET', '/secret/OLD?view=keys')
    await act('removed', place, 'DELETE', '/secret/OLD?environmentId=development')
    await act('renamed', place, 'PUT', '/secret/OLD', { name: 'NEW', values: [] })
    expect(await named({ entity: id })).toEqual(['made', 'read', 'removed', 'renamed'])
  })

  test('does not confuse a later secret of the same name with the recorded one', async () => {
    const place = await createSecretProject(service, session)
    await act('the first', place, 'POST', '/secret', bulk(['development'], { G: '1', H: '1' }))
    await act('gone', place, 'DELETE', '/secret/G?purge=true')
    await act('the second', place, 'POST', '/secret', bulk(['development'], { G: '2', I: '2' }))
    const { id } = await place.must<Secret>('GET', '/secret/G?view=keys')
    expect(await named({ entity: id })).toEqual(['the second'])
    expect(await named({ entity: 'G' })).toEqual(['the first', 'gone', 'gone', 'the second'])
  })

  test('separates entries about the secrets of a project from entries about the project', async () => {
    const projects = await findAll({ entity: 'project', project: project.slug })
    expect(projects.map(({ action }) => action)).toEqual(['CREATE'])
    const entry = (await find({ entity: 'D', action: 'CREATE', project: project.slug })).at(-1)
    expect(entry?.entity).toEqual({ type: 'secrets', id: project.id, name: project.slug })
    const secrets = await named({ entity: 'secret', project: project.slug })
    expect(new Set(secrets)).toEqual(
      new Set(
        [
          ...withD,
          'one in two',
          'import',
          ...inProduction,
          'list of one',
          'diff of one',
          'rename',
          'list after',
        ].filter((what) => what !== 'share opened'),
      ),
    )
  })

  test('finds a rare entry behind many similar ones', async () => {
    const id = await createTeam(service, session, 'created')
    const place = await createSecretProject(service, session)
    for (let index = 0; index < 120; index++) await place.set('development', { [`K${index}`]: 'x' })
    const found = await findAll({ entity: 'created' })
    expect(found.map(({ entity }) => entity.id)).toEqual([id])
  })
})

describe('the filter q', () => {
  test('finds keys in requests for several secrets, in any case and by a part of the name', async () => {
    const renamed = ['rename', 'list after']
    expect(await named({ q: 'RENAM' })).toEqual(renamed)
    expect(await named({ q: 'name' })).toEqual(renamed)
    expect(await named({ q: 'lone', action: 'CREATE' })).toEqual(['import'])
    const lists = ['list', 'list of one', 'resolved', 'exported', 'diff of one']
    expect(await named({ q: 'LONE', action: 'VIEW' })).toEqual(lists)
  })

  test.each([
    ['Übung', ['Übung', 'übung', 'ÜBUNG', 'bUNG', 'Ü']],
    ['Ω and ж', ['ω', 'Ж', 'Ω AND Ж']],
    ['\u212Aelvin \u0130', ['kelvin', 'KELVIN', '\u212Aelvin', '\u0130']],
    ['100 %_\\"quoted"', ['100 %', '%_', '_\\', '\\"q', 'QUOTED"']],
  ])('finds %s in any case and by a part, in single and batched rows', async (name, needles) => {
    const slug = `q-${Buffer.from(name).toString('hex').slice(0, 30)}`
    const { id } = await createProject(service, session, slug)
    const renamed = await service.call('PUT', `/v1/workspace/main/project/${slug}`, { token: session, body: { name } })
    expect(renamed.status, renamed.text).toBe(200)
    // Reads are batched, and the actor's name is their only field that need not be ASCII.
    const reader = await createToken(service, session, { name, permission: 'read' })
    await act('read', project, 'GET', '/secret/F', undefined, reader.token)
    for (const q of needles) {
      expect(
        (await findAll({ q, entity: id })).map(({ action }) => action),
        q,
      ).toEqual(['UPDATE'])
      expect(
        (await findAll({ q, action: 'VIEW' })).map(({ actor }) => actor.name),
        q,
      ).toEqual([name])
    }
    expect(await findAll({ q: `${needles[0]}.`, entity: id })).toEqual([])
  })
})
