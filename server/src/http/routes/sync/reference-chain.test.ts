/** Chains of references in a sync: every hop is limited to what its author can read. */
import type { Sync } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser, createToken } from '../../../../../test/harness.ts'
import { createIdentity, federate, startIssuer } from '../../../../../test/issuer.ts'
import {
  debounceMs,
  password,
  passwordReference,
  type ReferenceWorld,
  refer,
  referenceActions,
  refusal,
  remedyFor,
  resetReferences,
  startReferenceWorld,
} from '../../../../../test/reference-world.ts'
import { pushDue, readSync, setUpSync } from '../../../../../test/sync.ts'
import { sql } from '../../../store/engine/sql.ts'

let world: ReferenceWorld
let workspaceId: string
let people = 0
beforeAll(async () => {
  world = await startReferenceWorld()
  workspaceId = world.workspaceId
})
afterAll(() => world.stop())
beforeEach(() => resetReferences(world))

const {
  addDeveloper,
  changeScope,
  expectBlocked,
  expectBlockedStill,
  expectPushed,
  removeMember,
  scopeOf,
  startSync,
  write,
} = referenceActions(() => world)

/** The stored error for a reference in another environment than that of the sync. */
const unresolvedThrough = (key: string, through: string) =>
  `${key}: ${through} leads to a reference that cannot be resolved. Open the plan of this sync: it names the place to people who can read it.`

describe('a chain of references', () => {
  const middle = refer('staging.URL')

  test('is checked at each hop against the author of that hop', async () => {
    const { project } = world
    const ofBoth = await addDeveloper('development', 'staging')
    const id = await startSync()
    await write('staging', { URL: `db:${passwordReference}` }, ofBoth.session)
    await write('development', { FLAG: middle })
    const place = `${project.slug}.staging.URL`
    await expectBlocked(id, unresolvedThrough('FLAG', 'staging.URL'))
    const message = `FLAG: leads to ${place}, which refers to production.DB_PASSWORD, which the author of ${place} cannot read. ${remedyFor(place)}`
    expect(await project.ask('POST', `/sync/${id}/plan`)).toMatchObject({ status: 409, body: { message } })
    // Fixing the value in staging is enough, although nothing was ever pushed from there.
    await write('staging', { URL: `at:${passwordReference}` })
    await expectPushed(id, { ALPHA: 'one', FLAG: `at:${password}` })
  })

  const refersTo = (name: string) => refusal.replace('production.DB_PASSWORD', name)
  const end = () => `${world.project.slug}.production.DB_PASSWORD`
  const explanation = (name: string) =>
    `FLAG: refers to ${name}, which leads to ${end()}, which the author of FLAG cannot read. ${remedyFor('FLAG')}`
  const planned = async (id: string) => (await world.project.ask('POST', `/sync/${id}/plan`)).body.message

  test('is blocked if its first author can read the next place, but not the place after it', async () => {
    const ofBoth = await addDeveloper('development', 'staging')
    const id = await startSync()
    await write('staging', { URL: `at:${passwordReference}` })
    await write('development', { FLAG: middle }, ofBoth.session)
    await expectBlocked(id, refersTo('staging.URL'))
    expect(await planned(id)).toBe(explanation('staging.URL'))
    await changeScope(ofBoth, scopeOf('development', 'staging', 'production'))
    await expectPushed(id, { ALPHA: 'one', FLAG: `at:${password}` })
    await changeScope(ofBoth, scopeOf('development', 'staging'))
    await pushDue(world, debounceMs)
    expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: refersTo('staging.URL') })
  })

  test('is blocked also if it starts with a reference within its own environment', async () => {
    const developer = await addDeveloper('development')
    await write('development', { OTHER: passwordReference, ALPHA: 'one' })
    const id = await setUpSync(world, { exclude: 'OTHER' })
    await pushDue(world)
    await write('development', { FLAG: refer('OTHER') }, developer.session)
    const cause = 'FLAG: refers to OTHER, which leads to'
    await expectBlocked(id, `${cause} a value that the author of FLAG cannot read. ${remedyFor('FLAG')}`)
    expect(await planned(id)).toBe(explanation('OTHER'))
  })

  test('names the places after the first only to people who can read all of them', async () => {
    const ofBoth = await addDeveloper('development', 'staging')
    const admin = await addUser(world.service, `admin-${++people}@example.com`, {
      workspaceId,
      role: 'admin',
      scope: scopeOf('development', 'staging'),
    })
    const id = await startSync()
    await write('staging', { URL: `at:${passwordReference}` })
    await write('development', { FLAG: middle }, ofBoth.session)
    await expectBlocked(id, refersTo('staging.URL'))
    const plan = await world.project.ask('POST', `/sync/${id}/plan`, {}, admin.session)
    expect(plan.body.message).toBe(refersTo('staging.URL'))
  })

  test('reaches no further after its first author has left', async () => {
    const ofBoth = await addDeveloper('development', 'staging')
    const id = await startSync()
    await write('staging', { URL: `at:${passwordReference}`, NEXT: refer('HOST') })
    await write('development', { FLAG: middle, SIGN: refer('staging.NEXT') }, ofBoth.session)
    await expectBlocked(id, refersTo('staging.URL'))
    await removeMember(ofBoth)
    await expectBlocked(id, refersTo('staging.URL'))
    await write('staging', { URL: 'plain' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'plain', SIGN: 'staging host' })
  })

  test('is blocked at its start if the author cannot read the first place', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('staging', { URL: passwordReference })
    await write('development', { FLAG: middle }, developer.session)
    await expectBlocked(id, refusal.replace('production.DB_PASSWORD', 'staging.URL'))
  })
})

describe('an admin of only the environment of the sync', () => {
  const secretive = 'HIDDEN_NAME'
  const place = () => `${world.project.slug}.staging.${secretive}`

  /** Everything that the API says about such a sync, requested with this credential. */
  async function listTexts(id: string, token: string): Promise<string[]> {
    const { project } = world
    const [run] = await project.must<{ id: string }[]>('GET', `/sync/${id}/run?limit=1`, undefined, token)
    const paths = ['/sync', `/sync/${id}`, `/sync/${id}/run`, `/sync/${id}/run/${run?.id}`]
    const read = await Promise.all(paths.map((path) => project.ask('GET', path, undefined, token)))
    expect(read.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    const plan = await project.ask('POST', `/sync/${id}/plan`, {}, token)
    expect(plan.status).toBe(409)
    return [...read.map(({ text }) => text), plan.body.message]
  }

  const addAdmin = (...environments: string[]) => {
    const scope = environments.length > 0 ? scopeOf(...environments) : { ...scopeOf(), all: true }
    return addUser(world.service, `admin-${++people}@example.com`, { workspaceId, role: 'admin', scope })
  }

  /**
   * ALPHA, written by the owner, refers to a place that the admin cannot read, and the value there cannot be resolved.
   */
  async function block(value: string): Promise<string> {
    const id = await startSync()
    const stranger = await addDeveloper('staging')
    await write('staging', { [secretive]: value }, stranger.session)
    await write('development', { ALPHA: refer(`staging.${secretive}`) })
    await expectBlocked(id, unresolvedThrough('ALPHA', `staging.${secretive}`))
    return id
  }

  test.each([
    ['its author cannot read', `user:${passwordReference}`],
    ['names a missing key', `user:${refer('NOWHERE_ELSE')}`],
    ['names a missing environment', `user:${refer('nowhere.DB_PASSWORD')}`],
  ])('sees nothing of other environments: a reference there that %s', async (_, value) => {
    const id = await block(value)
    const admin = await addAdmin('development')
    const peek = await world.project.ask('GET', '/secret?environmentId=staging', undefined, admin.session)
    expect(peek.status).toBe(404)
    const said = await listTexts(id, admin.session)
    expect(said.at(-1)).toBe(unresolvedThrough('ALPHA', `staging.${secretive}`))
    for (const text of said) expect(text).not.toMatch(/DB_PASSWORD|NOWHERE|nowhere|production\.|user:|secrets-/)
  })

  test('sees in the plan where to look, if they can read there', async () => {
    const id = await block(`user:${passwordReference}`)
    const explanation = `ALPHA: leads to ${place()}, which refers to production.DB_PASSWORD,`
    const guess = ` which cannot be resolved: it may not exist, or the author of ${place()} cannot read it.`
    const known = ` which the author of ${place()} cannot read.`
    const ofTwo = await addAdmin('development', 'staging')
    expect((await listTexts(id, ofTwo.session)).at(-1)).toBe(`${explanation}${guess} ${remedyFor(place())}`)
    const ofAll = await addAdmin()
    expect((await listTexts(id, ofAll.session)).at(-1)).toBe(`${explanation}${known} ${remedyFor(place())}`)
    // A token acts for its creator, limited to its own scope.
    const { token } = await createToken(world.service, ofAll.session, {
      permission: 'read-write',
      scope: scopeOf('development', 'production'),
    })
    expect((await listTexts(id, token)).at(-1)).toBe(unresolvedThrough('ALPHA', `staging.${secretive}`))
  })

  test('does not see a readable place if the path to it goes through an unreadable one', async () => {
    const { project } = world
    const id = await startSync()
    await write('staging', { URL: refer('NOWHERE') })
    await write('production', { [secretive]: refer('staging.URL') })
    await write('development', { ALPHA: refer(`production.${secretive}`) })
    await expectBlocked(id, unresolvedThrough('ALPHA', `production.${secretive}`))
    const admin = await addAdmin('development', 'staging')
    expect((await listTexts(id, admin.session)).at(-1)).toBe(unresolvedThrough('ALPHA', `production.${secretive}`))
    const place = `${project.slug}.staging.URL`
    const explanation = `ALPHA: leads to ${place}, which refers to NOWHERE, which cannot be resolved.`
    expect((await listTexts(id, world.owner.session)).at(-1)).toBe(explanation)
  })

  test('cannot tell an unreadable environment or project from a missing one', async () => {
    const id = await startSync()
    const admin = await addAdmin('development')
    const said = []
    for (const name of [
      'production.KEY',
      'absent.KEY',
      `${world.project.slug}.production.KEY`,
      'absent.production.KEY',
    ]) {
      await write('development', { FLAG: refer(name) }, admin.session)
      await pushDue(world, debounceMs)
      const texts = await listTexts(id, admin.session)
      const { lastError } = await world.project.must<Sync>('GET', `/sync/${id}`, undefined, admin.session)
      said.push([lastError, texts.at(-1)].map((text) => text?.replaceAll(name, 'NAME')))
    }
    expect(new Set(said.flat()).size).toBe(1)
  })

  test('sees the errors of the environment of the sync first', async () => {
    const id = await startSync()
    await write('staging', { [secretive]: refer('NOWHERE') })
    await write('development', { ALPHA: refer(`staging.${secretive}`), ZULU: refer('MISSING') })
    await expectBlocked(id, 'ZULU: refers to MISSING, which cannot be resolved. And 1 more: see the plan of the sync.')
  })

  test('sees every blocked key with its reason in the plan, up to ten', async () => {
    const id = await block(`user:${passwordReference}`)
    const keys = Array.from({ length: 11 }, (_, index) => `KEY_${10 + index}`)
    await write('development', Object.fromEntries(keys.map((key) => [key, refer(`NOT_${key}`)])))
    const [first = '', ...others] = keys.map((key) => `${key}: refers to NOT_${key}, which cannot be resolved.`)
    await expectBlocked(id, `${first} And 11 more: see the plan of the sync.`)
    const admin = await addAdmin('development')
    const explanation = async () => (await listTexts(id, admin.session)).at(-1)
    expect(await explanation()).toBe(`${[first, ...others.slice(0, 9)].join('\n')} And 2 more.`)
    for (const key of keys.slice(1)) await world.project.must('DELETE', `/secret/${key}`)
    await pushDue(world, debounceMs)
    expect(await explanation()).toBe(`${first}\n${unresolvedThrough('ALPHA', `staging.${secretive}`)}`)
  })
})

describe('a value written by a machine', () => {
  test('with a token reaches no further than the token’s scope, also after the token is deleted', async () => {
    const { service, owner } = world
    const { id: tokenId, token } = await createToken(service, owner.session, { scope: scopeOf('development') })
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, token)
    await expectBlocked(id, refusal)
    await service.call('DELETE', `/v1/workspace/main/tokens/${tokenId}`, { token: owner.session })
    await run(sql`delete from token where id = ${tokenId}`)
    await world.project.must('POST', `/sync/${id}/run`)
    await expectBlocked(id, refusal)
  })

  test('with a deleted token reaches no further than its creator', async () => {
    const { service, owner } = world
    const developer = await addDeveloper('development', 'production')
    const { id: tokenId, token } = await createToken(service, developer.session, {
      scope: scopeOf('development', 'production'),
    })
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, token)
    await expectPushed(id, { ALPHA: 'one', FLAG: password })
    await service.call('DELETE', `/v1/workspace/main/tokens/${tokenId}`, { token: owner.session })
    await run(sql`delete from token where id = ${tokenId}`)
    await changeScope(developer, scopeOf('development'))
    await expectBlockedStill(id)
  })

  test('with an external identity reaches as far as the identity’s scope', async () => {
    const { service, owner } = world
    const issuer = await startIssuer(() => service.app.services.now())
    const identify = async (...environments: string[]) => {
      const body = { issuer: issuer.url, subject: environments.join(), permission: 'read-write' }
      await createIdentity(service, owner.session, { ...body, scope: scopeOf(...environments) })
      return federate(service, await issuer.sign({ sub: environments.join() }))
    }
    const [narrow, wide] = [await identify('development'), await identify('development', 'production')]
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, narrow)
    await expectBlocked(id, refusal)
    await write('development', { FLAG: `db:${passwordReference}` }, wide)
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
    await issuer.stop()
  })
})

const run = (query: ReturnType<typeof sql>) =>
  world.service.app.services.engine.transaction('test', ({ db }) => db.count(query))
