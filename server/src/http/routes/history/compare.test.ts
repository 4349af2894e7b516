// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Diffs between environments and revisions, and promotions from one environment to another. */
import type { Diff, Promoted, Revision } from '@coffer/contract/history'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
})
const diff = (from: string, to: string, more = '') =>
  project.must<Diff>('GET', `/secret/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}${more}`)
const promote = (body: Record<string, unknown>, to = 'staging') =>
  project.ask<Promoted & { message: string }>('POST', `/environment/${project.idOf(to)}/promote`, {
    from: 'development',
    ...body,
  })
const changesOf = (revision: Revision | undefined) =>
  (revision?.changes ?? []).toSorted((a, b) => (a.key < b.key ? -1 : 1))

describe('a diff', () => {
  beforeEach(async () => {
    await project.set('development', { SAME: '1', CHANGED: 'secret-one', GONE: 'secret-two' })
    await project.set('staging', { SAME: '1', CHANGED: 'secret-three', NEW: 'secret-four' })
  })
  const expected = { added: ['NEW'], removed: ['GONE'], changed: ['CHANGED'], same: ['SAME'] }

  test('between two environments, given by name or id, lists the keys and is not recorded as a read', async () => {
    expect(await diff('development', 'staging')).toEqual(expected)
    expect(await diff(project.idOf('development'), project.idOf('staging'))).toEqual(expected)
    expect(await diff('staging', 'staging')).toMatchObject({ added: [], removed: [], changed: [] })
    expect(await project.views()).toEqual([])
  })

  test('has values only on request, and is then recorded as a read', async () => {
    const { values, ...keys } = await diff('development', 'staging', '&values=true')
    expect(keys).toEqual(expected)
    expect(values).toEqual({
      CHANGED: { from: 'secret-one', to: 'secret-three' },
      GONE: { from: 'secret-two' },
      NEW: { to: 'secret-four' },
    })
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view?.after).toEqual({
      keys: ['CHANGED', 'GONE', 'NEW'],
      from: 'development',
      to: 'staging',
      environmentIds: ['development', 'staging'].map(project.idOf),
    })
    expect(await diff('development', 'staging', '&values=false')).toEqual(expected)
    expect(await project.views()).toHaveLength(1)
  })

  test('between two revisions of an environment uses the names at each revision', async () => {
    await project.rename('SAME', 'RENAMED')
    await project.set('development', { CHANGED: 'secret-five' })
    expect(await diff('development@1', 'development@3')).toEqual({
      added: ['RENAMED'],
      removed: ['SAME'],
      changed: ['CHANGED'],
      same: ['GONE'],
    })
    expect(await diff('development@0', 'development@1')).toMatchObject({ added: ['CHANGED', 'GONE', 'SAME'] })
    expect(await diff('development@3', 'development')).toMatchObject({ added: [], removed: [], changed: [] })
  })

  test('between two points in time compares the states at these times', async () => {
    const [newest] = await project.revisions('development')
    const then = newest?.createdAt ?? ''
    service.clock.offsetMs += 60_000
    await project.set('development', { LATER: '1' })
    const moment = Date.parse(then)
    const at = (ms: number) => `development@${new Date(ms).toISOString()}`
    expect(await diff(at(moment), 'development')).toMatchObject({ added: ['LATER'], removed: [], changed: [] })
    expect(await diff(at(moment + 1_000), at(moment + 600_000))).toMatchObject({ added: ['LATER'] })
    expect(await diff(at(moment - 1), at(moment))).toMatchObject({ added: ['CHANGED', 'GONE', 'SAME'], same: [] })
    const elsewhere = `development@${new Date(moment + 7_200_000).toISOString().replace('Z', '+02:00')}`
    expect(await diff(elsewhere, at(moment))).toMatchObject({ added: [], removed: [], changed: [] })
  })

  test.each([
    ['from=development', /^to: /],
    ['to=development', /^from: /],
    ['from=development@&to=staging', /^from: /],
    ['from=development&to=staging@yesterday', /^to: /],
    ['from=development&to=staging@-1', /^to: /],
    ['from=development&to=staging@1.5', /^to: /],
    ['from=development@2026-13-01T00:00:00Z&to=staging', /^from: /],
    ['from=development@2026-01-01T00:00:00&to=staging', /^from: /],
    ['from=development&to=staging&values=perhaps', /^values: /],
  ])('refuses %s', async (query, message) => {
    const answer = await project.ask('GET', `/secret/diff?${query}`)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toMatch(message)
  })

  test.each(['from=nowhere&to=staging', 'from=development&to=nowhere@1', 'from=development@99&to=staging'])(
    'is 404 for %s',
    async (query) => {
      expect((await project.ask('GET', `/secret/diff?${query}`)).status).toBe(404)
    },
  )
})

describe('a promotion', () => {
  beforeEach(async () => {
    await project.set('development', { A: 'a', B: '${A}', SAME: 's' })
    await project.set('staging', { A: 'other', SAME: 's', ONLY_HERE: 'h' })
  })
  const untouched = { A: 'other', SAME: 's', ONLY_HERE: 'h' }
  const statuses = ({ results }: Promoted) => Object.fromEntries(results.map(({ key, status }) => [key, status]))

  test('copies everything, removes nothing, keeps references as they are, and creates one revision', async () => {
    const { body } = await promote({ message: 'release 7' })
    expect(statuses(body)).toEqual({ A: 'updated', B: 'created', SAME: 'unchanged' })
    expect(body.revision).toBe(2)
    expect(await project.state('staging')).toEqual({ A: 'a', B: '${A}', SAME: 's', ONLY_HERE: 'h' })
    expect(await project.state('development')).toEqual({ A: 'a', B: '${A}', SAME: 's' })
    const [newest] = await project.revisions('staging')
    expect(newest?.message).toBe('release 7')
    expect(changesOf(newest)).toEqual([
      { key: 'A', action: 'updated' },
      { key: 'B', action: 'created' },
    ])
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test('with chosen keys copies only these', async () => {
    expect(statuses((await promote({ keys: ['B'] })).body)).toEqual({ B: 'created' })
    expect(await project.state('staging')).toEqual({ ...untouched, B: '${A}' })
  })

  test('with a repeated key copies it once', async () => {
    const answer = await promote({ keys: ['B', 'B'] })
    expect([200, 400], answer.text).toContain(answer.status)
    expect(await project.state('staging')).toEqual(answer.status === 200 ? { ...untouched, B: '${A}' } : untouched)
  })

  test('in mode create is refused with the keys that have a value, and changes nothing', async () => {
    const answer = await promote({ mode: 'create' })
    expect(answer.status).toBe(409)
    expect(answer.body.message).toContain('A, SAME')
    expect(await project.state('staging')).toEqual(untouched)
    expect((await promote({ mode: 'create', keys: ['B'] })).status).toBe(200)
  })

  test('in mode skip keeps existing values', async () => {
    const { body } = await promote({ mode: 'skip' })
    expect(statuses(body)).toEqual({ A: 'skipped', B: 'created', SAME: 'skipped' })
    expect(await project.state('staging')).toEqual({ ...untouched, B: '${A}' })
  })

  test('does not copy personal values', async () => {
    await project.allowPersonal('development')
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/A/value', personal)
    await promote({})
    expect(await project.state('staging')).toMatchObject({ A: 'a' })
  })

  test('as a dry run changes nothing and is no read, and its digest allows the same promotion', async () => {
    const dry = await promote({ dryRun: true })
    expect(statuses(dry.body)).toEqual({ A: 'updated', B: 'created', SAME: 'unchanged' })
    expect(await project.revisions('staging')).toHaveLength(1)
    expect(await project.views()).toEqual([])
    expect(await project.state('staging')).toEqual(untouched)
    const real = await promote({ ifDiff: dry.body.diff })
    expect(real.status, real.text).toBe(200)
    expect(real.body.diff).toBe(dry.body.diff)
    expect(await project.state('staging')).toMatchObject({ A: 'a', B: '${A}' })
  })

  const changes: [what: string, change: () => Promise<unknown>][] = [
    ['a value of the source changed', () => project.set('development', { A: 'b' })],
    ['a value of the target changed', () => project.set('staging', { A: 'b' })],
    ['the source got a new key', () => project.set('development', { NEW: 'n' })],
    ['the source lost a key', () => project.remove('development', 'B')],
    ['the target lost a key', () => project.remove('staging', 'A')],
    ['a secret was renamed', () => project.rename('B', 'C')],
  ]
  test.each(changes)('with the digest of a dry run is refused when %s', async (_what, change) => {
    const { diff: digest } = (await promote({ dryRun: true })).body
    await change()
    const before = await project.state('staging')
    const answer = await promote({ ifDiff: digest })
    expect(answer.status).toBe(412)
    expect(await project.state('staging')).toEqual(before)
    const again = await promote({ dryRun: true })
    expect((await promote({ ifDiff: again.body.diff })).status).toBe(200)
  })

  test('with the digest of a dry run succeeds when something else changed', async () => {
    const { diff: digest } = (await promote({ dryRun: true, keys: ['A'] })).body
    await project.set('development', { SAME: 'another' })
    await project.set('staging', { ONLY_HERE: 'another' })
    expect((await promote({ keys: ['A'], ifDiff: digest })).status).toBe(200)
  })

  test('with an unknown digest is refused', async () => {
    expect((await promote({ ifDiff: 'something' })).status).toBe(412)
  })

  test('is recorded as a read of the source', async () => {
    await promote({ keys: ['A'] })
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view).toMatchObject({
      entity: { type: 'secrets', id: project.id },
      environmentId: project.idOf('development'),
      after: { keys: ['A'], promotedTo: 'staging' },
    })
  })

  test.each([
    [{ from: 'staging' }, 400, /^from: /],
    [{ keys: ['ONLY_HERE'] }, 400, /^keys: ONLY_HERE/],
    [{ keys: [] }, 400, /^keys/],
    [{ mode: 'replace' }, 400, /^mode: /],
    [{ from: 'nowhere' }, 404, /./],
  ])('with %j is refused', async (body, status, message) => {
    const answer = await promote(body)
    expect(answer.status).toBe(status)
    expect(answer.body.message).toMatch(message)
    expect(await project.state('staging')).toEqual(untouched)
  })

  test('needs both environments in the scope', async () => {
    const scope = { environments: [project.idOf('staging')] }
    const { token } = await createToken(service, owner.session, { scope })
    const path = `/environment/${project.idOf('staging')}/promote`
    expect((await project.ask('POST', path, { from: 'development' }, token)).status).toBe(404)
  })
})
