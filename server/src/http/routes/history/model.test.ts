// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Random histories of writes, compared with a model. */
import type { AuditVerdict } from '@coffer/contract/audit'
import type { RevisionResults, Secret } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

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
const restoreRevision = (environment: string, revision: number, body: unknown = {}) =>
  project.must<RevisionResults>('POST', `/environment/${project.idOf(environment)}/revision/${revision}/restore`, body)

/** The expected state: secrets by name with their values, the trash, and every earlier state. */
type ModelSecret = { readonly id: number; name: string; note: string; readonly values: Map<Place, string> }
type Place = (typeof places)[number]
type Snapshot = { readonly values: Values; readonly ids: Readonly<Record<string, number>> }
type Model = { live: ModelSecret[]; trash: ModelSecret[]; made: number; readonly history: Record<Place, Snapshot[]> }
const places = ['development', 'staging'] as const

const name = fc.constantFrom('A', 'B', 'C', 'D')
const value = fc.constantFrom('', 'one', 'two', 'three', '${NOWHERE}')
const place = fc.constantFrom(...places)
const mode = fc.constantFrom('create' as const, 'upsert' as const, 'skip' as const)
const batchStep = fc.oneof(
  fc.record({ op: fc.constant('set' as const), key: name, value }),
  fc.record({ op: fc.constant('delete' as const), key: name }),
  fc.record({ op: fc.constant('rename' as const), key: name, to: name }),
)
type BatchStep = typeof batchStep extends fc.Arbitrary<infer Step> ? Step : never

const command = fc.oneof(
  fc.record({
    do: fc.constant('create' as const),
    places: fc.uniqueArray(place, { minLength: 1 }),
    values: fc.dictionary(name, value, { minKeys: 1, noNullPrototype: true }),
    note: fc.option(fc.constantFrom('this', 'that'), { nil: undefined }),
    mode,
  }),
  fc.record({ do: fc.constant('update' as const), key: name, place, value }),
  fc.record({ do: fc.constant('rename' as const), key: name, to: name }),
  fc.record({ do: fc.constant('delete' as const), key: name, place }),
  fc.record({ do: fc.constant('trash' as const), key: name }),
  fc.record({ do: fc.constant('untrash' as const), key: name }),
  fc.record({
    do: fc.constant('batch' as const),
    place,
    steps: fc.uniqueArray(batchStep, { selector: ({ key }) => key, minLength: 1, maxLength: 4 }),
  }),
  fc.record({
    do: fc.constant('promote' as const),
    place,
    keys: fc.option(fc.uniqueArray(name, { minLength: 1 }), { nil: undefined }),
    mode,
  }),
  fc.record({ do: fc.constant('restore' as const), place, back: fc.nat({ max: 6 }) }),
)
type Command = typeof command extends fc.Arbitrary<infer One> ? One : never

const findIn = (list: readonly ModelSecret[], key: string) => list.find((secret) => secret.name === key)
const modelState = ({ live }: Model, where: Place): Values =>
  Object.fromEntries(
    live.flatMap((secret) => {
      const stored = secret.values.get(where)
      return stored === undefined ? [] : [[secret.name, stored]]
    }),
  )

/** Applies the request to the model; returns 200, or the status of a refusal, which changes nothing. */
function follow(model: Model, wanted: Command): number {
  const copy = (list: readonly ModelSecret[]) => list.map((one) => ({ ...one, values: new Map(one.values) }))
  const next: Model = { ...model, live: copy(model.live), trash: copy(model.trash) }
  const touched = new Set<Place>()
  const status = change(next, wanted, touched)
  if (status !== 200) return status
  Object.assign(model, { live: next.live, trash: next.trash, made: next.made })
  for (const where of touched) {
    const ids = Object.fromEntries(model.live.map((one) => [one.name, one.id]))
    model.history[where].push({ values: modelState(model, where), ids })
  }
  return 200
}

function change(model: Model, wanted: Command, touched: Set<Place>): number {
  const secret = 'key' in wanted ? findIn(model.live, wanted.key) : undefined
  switch (wanted.do) {
    case 'create':
      return writeAll(model, wanted.places, wanted.values, wanted.mode, touched, wanted.note)
    case 'update':
      return secret ? writeAll(model, [wanted.place], { [wanted.key]: wanted.value }, 'upsert', touched) : 404
    case 'rename':
      return wanted.key === wanted.to && secret ? 200 : renameOne(model, wanted, touched)
    case 'delete':
      return removeOne(model, wanted.key, wanted.place, touched)
    case 'trash':
      if (!secret) return 404
      model.live.splice(model.live.indexOf(secret), 1)
      model.trash.unshift(secret)
      for (const where of secret.values.keys()) touched.add(where)
      return 200
    case 'untrash': {
      const trashed = findIn(model.trash, wanted.key)
      if (!trashed || secret) return trashed ? 409 : 404
      model.trash.splice(model.trash.indexOf(trashed), 1)
      model.live.push(trashed)
      for (const where of trashed.values.keys()) touched.add(where)
      return 200
    }
    case 'batch':
      return followBatch(model, wanted, touched)
    case 'promote': {
      const source = modelState(model, wanted.place === 'development' ? 'staging' : 'development')
      const keys = wanted.keys ?? Object.keys(source)
      if (keys.some((key) => !(key in source))) return 400
      const chosen = Object.fromEntries(keys.map((key) => [key, source[key] ?? '']))
      return writeAll(model, [wanted.place], chosen, wanted.mode, touched)
    }
    case 'restore': {
      const { values: then = {}, ids = {} } = model.history[wanted.place][revisionOf(model, wanted)] ?? {}
      for (const key of Object.keys(modelState(model, wanted.place))) {
        if (!(key in then)) removeOne(model, key, wanted.place, touched)
      }
      for (const key of Object.keys(then)) if (!findIn(model.live, key)) bringBack(model, key, ids[key] ?? 0)
      return writeAll(model, [wanted.place], then, 'upsert', touched)
    }
  }
}

/** Restores the secret from the trash, or creates another one with its note if it was renamed. */
function bringBack(model: Model, key: string, id: number): void {
  const trashed = model.trash.find((secret) => secret.id === id)
  if (trashed) {
    model.trash.splice(model.trash.indexOf(trashed), 1)
    model.live.push({ ...trashed, name: key, values: new Map() })
    return
  }
  const note = model.live.find((secret) => secret.id === id)?.note ?? ''
  model.live.push({ id: ++model.made, name: key, note, values: new Map() })
}

const revisionOf = (model: Model, { place: where, back }: { place: Place; back: number }) =>
  Math.max(0, model.history[where].length - 1 - back)

function writeAll(
  model: Model,
  where: readonly Place[],
  values: Values,
  how: 'create' | 'upsert' | 'skip',
  touched: Set<Place>,
  note?: string,
): number {
  for (const environment of where) {
    for (const [key, written] of Object.entries(values)) {
      let secret = findIn(model.live, key)
      const old = secret?.values.get(environment)
      if (old !== undefined && how === 'create') return 409
      if (old !== undefined && how === 'skip') continue
      if (!secret) {
        secret = { id: ++model.made, name: key, note: '', values: new Map() }
        model.live.push(secret)
      }
      secret.note = note ?? secret.note
      if (old === written) continue
      secret.values.set(environment, written)
      touched.add(environment)
    }
  }
  return 200
}

function removeOne(model: Model, key: string, where: Place, touched: Set<Place>): number {
  touched.add(where)
  return findIn(model.live, key)?.values.delete(where) ? 200 : 404
}

function renameOne(model: Model, { key, to }: { key: string; to: string }, touched: Set<Place>): number {
  const secret = findIn(model.live, key)
  if (!secret) return 404
  if (findIn(model.live, to)) return 409
  secret.name = to
  for (const where of secret.values.keys()) touched.add(where)
  return 200
}

/** Renames run first, wherever they are listed; a write listed before the rename to its key is refused. */
function followBatch(model: Model, { place: where, steps }: { place: Place; steps: BatchStep[] }, touched: Set<Place>) {
  const isWritten = (key: string, before: number) =>
    steps.slice(0, before).some((step) => step.op !== 'rename' && step.key === key)
  if (steps.some((step, index) => step.op === 'rename' && isWritten(step.to, index))) return 400
  const work = steps.map((step) => () => {
    if (step.op === 'rename') return renameOne(model, step, touched)
    if (step.op === 'delete') return removeOne(model, step.key, where, touched)
    return writeAll(model, [where], { [step.key]: step.value }, 'upsert', touched)
  })
  const isRename = (index: number) => steps[index]?.op === 'rename'
  const ordered = [...work.filter((_, index) => isRename(index)), ...work.filter((_, index) => !isRename(index))]
  for (const run of ordered) {
    const status = run()
    if (status !== 200) return status
  }
  return 200
}

async function send(model: Model, wanted: Command): Promise<number> {
  const { ask, idOf } = project
  switch (wanted.do) {
    case 'create': {
      const { note } = wanted
      const secrets = Object.entries(wanted.values).map(([key, written]) => ({ key, value: written, note }))
      const body = { environments: wanted.places, secrets, mode: wanted.mode }
      const { status } = await ask('POST', '/secret', body)
      return status === 201 ? 200 : status
    }
    case 'update': {
      const body = { environmentId: wanted.place, value: wanted.value }
      return (await ask('PUT', `/secret/${wanted.key}/value`, body)).status
    }
    case 'rename':
      return (await ask('PUT', `/secret/${wanted.key}`, { name: wanted.to, values: [] })).status
    case 'delete':
      return (await ask('DELETE', `/secret/${wanted.key}?environmentId=${wanted.place}`)).status
    case 'trash':
      return (await ask('DELETE', `/secret/${wanted.key}`)).status
    case 'untrash':
      return (await ask('POST', `/secret/${wanted.key}/restore`)).status
    case 'batch':
      return (await ask('POST', '/secret/batch', { environmentId: wanted.place, operations: wanted.steps })).status
    case 'promote': {
      const from = wanted.place === 'development' ? 'staging' : 'development'
      const body = { from, mode: wanted.mode, ...(wanted.keys && { keys: wanted.keys }) }
      return (await ask('POST', `/environment/${idOf(wanted.place)}/promote`, body)).status
    }
    case 'restore': {
      const path = `/environment/${idOf(wanted.place)}/revision/${revisionOf(model, wanted)}/restore`
      return (await ask('POST', path, {})).status
    }
  }
}

/** Every secret keeps its id and its note, whatever its name. */
async function expectSameSecrets(model: Model, known: Map<number, string>): Promise<void> {
  const secrets = await project.must<Secret[]>('GET', '/secret?view=keys')
  expect(secrets.map((secret) => [secret.name, secret.note])).toEqual(
    model.live.map((secret) => [secret.name, secret.note]).sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )
  for (const { name: key, id } of secrets) {
    const modelId = findIn(model.live, key)?.id ?? 0
    expect(known.get(modelId) ?? id, key).toBe(id)
    known.set(modelId, id)
  }
  expect(new Set(known.values()).size).toBe(known.size)
}

test('after any history, restoring any revision gives exactly the state of that revision', async () => {
  const histories = fc.array(command, { minLength: 1, maxLength: 25 })
  await fc.assert(
    fc.asyncProperty(histories, async (commands) => {
      project = await createSecretProject(service, owner.session)
      const empty = { values: {}, ids: {} }
      const model: Model = { live: [], trash: [], made: 0, history: { development: [empty], staging: [empty] } }
      const known = new Map<number, string>()
      for (const wanted of commands) {
        // Timestamps never repeat, so the latest of two equal names in the trash is unambiguous.
        service.clock.offsetMs += 5
        const status = await send(model, wanted)
        expect(status, JSON.stringify(wanted)).toBe(follow(model, wanted))
        await expectSameSecrets(model, known)
      }
      for (const where of places) {
        const states = model.history[where]
        expect(await project.state(where)).toEqual(states.at(-1)?.values)
        const [newest] = await project.revisions(where, '?limit=1')
        expect(newest?.revision ?? 0).toBe(states.length - 1)
        for (const [revision, { values }] of [...states].entries()) {
          const back = states.length - 1 - revision
          await restoreRevision(where, revision)
          expect(follow(model, { do: 'restore', place: where, back })).toBe(200)
          await expectSameSecrets(model, known)
          expect(await project.state(where), `${where}@${revision}`).toEqual(values)
        }
      }
    }),
    { numRuns: times(15, 100) },
  )
  const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body.ok).toBe(true)
})
