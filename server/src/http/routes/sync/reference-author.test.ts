/** A reference keeps its author: after the author has left, in every copy, and against changes in the database. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  debounceMs,
  password,
  passwordReference,
  type ReferenceWorld,
  refer,
  referenceActions,
  refusal,
  resetReferences,
  startReferenceWorld,
} from '../../../../../test/reference-world.ts'
import { pushDue, readSync, setUpSync } from '../../../../../test/sync.ts'
import { sql } from '../../../store/engine/sql.ts'

let world: ReferenceWorld
beforeAll(async () => {
  world = await startReferenceWorld()
})
afterAll(() => world.stop())
beforeEach(() => resetReferences(world))

const { addDeveloper, expectBlocked, expectBlockedStill, expectPushed, removeMember, startSync, state, write } =
  referenceActions(() => world)

describe('after its author has left', () => {
  test('a reference is still pushed', async () => {
    const developer = await addDeveloper('development', 'production')
    await write('development', { FLAG: passwordReference }, developer.session)
    const id = await startSync()
    expect(state()).toEqual({ ALPHA: 'one', FLAG: password })
    await removeMember(developer)
    await write('production', { DB_PASSWORD: 'another' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'another' })
  })

  test('a reference that its author could not read stays blocked', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    await removeMember(developer)
    await expectBlocked(id, refusal)
  })
})

describe('a copied reference keeps its author', () => {
  const other = refer('staging.HOST')

  test('when an admin restores a version, a revision, or a secret from the trash, by itself or with a revision', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    const [{ revision = 0 } = {}] = await project.revisions('development')
    await write('development', { FLAG: 'plain' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'plain' })
    const environmentId = project.idOf('development')
    await project.must('POST', '/secret/FLAG/version/1/restore', { environmentId })
    await expectBlockedStill(id)
    await write('development', { FLAG: 'plain' })
    await project.must('POST', `/environment/${environmentId}/revision/${revision}/restore`, {})
    await expectBlockedStill(id)
    await project.must('DELETE', '/secret/FLAG')
    await expectPushed(id, { ALPHA: 'one' })
    await project.must('POST', '/secret/FLAG/restore')
    await expectBlockedStill(id)
    await project.must('DELETE', '/secret/FLAG')
    await expectPushed(id, { ALPHA: 'one' })
    await project.must('POST', `/environment/${environmentId}/revision/${revision}/restore`, {})
    await expectBlockedStill(id)
    expect(JSON.stringify(state())).not.toContain(password)
  })

  test('when someone else renames it', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    const operations = [{ op: 'rename', key: 'FLAG', to: 'SIGN' }]
    await project.must('POST', '/secret/batch', { environmentId: project.idOf('development'), operations })
    await expectBlocked(id, refusal.replaceAll('FLAG', 'SIGN'))
  })

  test('when it is promoted, and the person who promotes it must be able to read its target too', async () => {
    const { project } = world
    const developer = await addDeveloper('development', 'staging')
    const id = await setUpSync(world, {}, 'staging')
    await pushDue(world)
    await write('development', { FLAG: passwordReference }, developer.session)
    const promote = (key: string, token?: string) =>
      project.must(
        'POST',
        `/environment/${project.idOf('staging')}/promote`,
        { from: 'development', keys: [key] },
        token,
      )
    await promote('FLAG')
    await expectBlocked(id, refusal)
    await write('staging', { FLAG: 'plain' })
    await write('development', { OURS: passwordReference, THEIRS: other })
    await promote('THEIRS', developer.session)
    await expectPushed(id, { HOST: 'staging host', FLAG: 'plain', THEIRS: 'staging host' })
    await promote('OURS', developer.session)
    await expectBlocked(id, refusal.replaceAll('FLAG', 'OURS'))
  })
})

test('changing an author in the database makes the value unreadable', async () => {
  const { project, owner } = world
  const developer = await addDeveloper('development')
  const id = await startSync()
  await write('development', { FLAG: passwordReference }, developer.session)
  const put = (authors: string) =>
    run(sql`
      update secret_value set authors = ${authors}
      where environment_id = ${project.idOf('development')} and sealed is not null
        and secret_id in (select id from secret where name = 'FLAG')`)
  for (const authors of ['', `user:${owner.id}`, `user:${developer.id}`]) {
    await put(authors)
    await project.must('POST', `/sync/${id}/run`)
    await pushDue(world, debounceMs)
    expect((await readSync(world, id)).state).not.toBe('active')
    expect(state()).toEqual({ ALPHA: 'one' })
    expect((await project.ask('GET', '/secret?environmentId=development')).status).toBe(500)
  }
  await put(`user:${developer.id}!`)
  await project.must('POST', `/sync/${id}/run`)
  await expectBlocked(id, refusal)
})

const run = (query: ReturnType<typeof sql>) =>
  world.service.app.services.engine.transaction('test', ({ db }) => db.count(query))
