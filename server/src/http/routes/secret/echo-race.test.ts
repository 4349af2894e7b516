/**
 * Two clients read a secret, edit it and put it back, in any order and concurrently. The model below is written from the
 * rules of the API alone; `expectNothingLost` checks the guarantee itself: no change is lost without a 409.
 */
import type { Secret, SecretRow, WriteResults } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addUser, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

const environments = ['development', 'staging', 'production'] as const
/** Never deleted, so that the secret stays visible. */
const lasting = 'production'
/** The environment in which both clients have a personal value. */
const personal = 'development'

let service: TestService
let project: SecretProject
let sessions: readonly [string, string]

beforeAll(async () => {
  service = await startService()
  const owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const other = await addUser(service, 'other@example.com', { workspaceId: body.id, role: 'developer' })
  sessions = [owner.session, other.session]
  project = await createSecretProject(service, owner.session)
  await project.allowPersonal(personal)
})
afterAll(() => service.stop())

type Environment = (typeof environments)[number]
type Client = 0 | 1
type Field = 'name' | 'note' | 'dataType'
type Fields = Record<Field, string>
/** Versions of a value, oldest first; null is a removal. */
type Versions = readonly (string | null)[]
type State = {
  readonly fields: Fields
  readonly past: readonly Fields[]
  readonly shared: Record<Environment, Versions>
  readonly own: readonly [Versions, Versions]
}
type Edit = {
  readonly shared: Partial<Record<Environment, string>>
  readonly own?: string
  readonly fields: Partial<Fields>
}
type Sent = { readonly fields: Fields; readonly rows: readonly SentRow[]; readonly edit: Edit }
type SentRow = {
  readonly environment: Environment
  readonly isOwn: boolean
  readonly version: number
  readonly value: string
}

const last = (versions: Versions) => versions.at(-1) ?? null
const withVersion = (versions: Versions, value: string | null) =>
  last(versions) === value ? versions : [...versions, value]

/** Returns the state after a client puts back a secret with the versions that it read, or undefined for a 409. */
function putBack(state: State, client: Client, { fields, rows }: Sent): State | undefined {
  const shared = { ...state.shared }
  const own: [Versions, Versions] = [...state.own]
  for (const { environment, isOwn, version, value } of rows) {
    const stored = isOwn ? own[client] : shared[environment]
    if (last(stored) === value) continue
    if (version < stored.length) {
      if (isOwn || stored[version - 1] !== value) return undefined
    } else if (isOwn) own[client] = withVersion(stored, value)
    else shared[environment] = withVersion(stored, value)
  }
  const isEcho = (field: Field) => state.past.some((past) => past[field] === fields[field])
  const keep = (field: Field) => (isEcho(field) ? state.fields[field] : fields[field])
  return { ...describe(state, { name: keep('name'), note: keep('note'), dataType: keep('dataType') }), shared, own }
}

const describe = (state: State, fields: Partial<Fields>): State => ({
  ...state,
  fields: { ...state.fields, ...fields },
  past: [...state.past, state.fields],
})

/** Checks the guarantee for every accepted request, independently of the rules in the model. */
function expectNothingLost(before: State, after: State, client: Client, { fields, rows, edit }: Sent): void {
  for (const { environment, isOwn, version } of rows) {
    const [old, now] = isOwn
      ? [before.own[client], after.own[client]]
      : [before.shared[environment], after.shared[environment]]
    const wanted = isOwn ? edit.own : edit.shared[environment]
    // A row that was not edited changes nothing, an edit takes effect, and it replaces only what its author has seen.
    if (wanted === undefined) expect(now).toEqual(old)
    else expect(last(now)).toBe(wanted)
    if (now.length > old.length) expect(version).toBe(old.length)
  }
  for (const field of ['name', 'note', 'dataType'] as const) {
    if (edit.fields[field] === undefined) expect(after.fields[field]).toBe(before.fields[field])
    else if (before.past.every((past) => past[field] !== fields[field])) expect(after.fields[field]).toBe(fields[field])
  }
}

const value = fc.constantFrom('a', 'b', 'c', '')
const name = fc.constantFrom('FIRST', 'SECOND', 'THIRD', 'FOURTH')
const note = fc.constantFrom('', 'one note', 'another', 'a third')
const dataType = fc.constantFrom('text', 'json', 'url')
const client = fc.constantFrom<Client>(0, 1)
const environment = fc.constantFrom(...environments)
const shared = fc.record({ development: value, staging: value, production: value }, { requiredKeys: [] })
const fields = fc.record({ name, note, dataType }, { requiredKeys: [] })
const edit: fc.Arbitrary<Edit> = fc.record({ shared, own: value, fields }, { requiredKeys: ['shared', 'fields'] })
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('read' as const), client }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('put' as const), client, edit }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('race' as const), edits: fc.tuple(edit, edit) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('write' as const), client, environment, value, isOwn: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('delete' as const), client, environment, isOwn: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rename' as const), client, name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('note' as const), client, note }) },
)
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

let runs = 0

test('no change is lost without a 409, and the state always matches the model', async () => {
  const steps = fc.array(step, { minLength: 4, maxLength: 14 })
  // A slow machine may do fewer runs, but must complete at least one in that time.
  await fc.assert(fc.asyncProperty(steps, play), { numRuns: times(12, 100), interruptAfterTimeLimit: 40_000 })
})

async function play(steps: readonly Step[]): Promise<void> {
  runs += 1
  const prefix = `R${runs}_`
  const called = (short: string) => prefix + short
  const first = environments.map((environment) => project.idOf(environment))
  const secrets = [{ key: called('START'), value: 'start' }]
  const { results } = await project.must<WriteResults>('POST', '/secret', { environments: first, secrets })
  const id = results[0]?.id ?? ''
  const start = ['start']
  let state: State = {
    fields: { name: called('START'), note: '', dataType: 'text' },
    past: [],
    shared: { development: start, staging: start, production: start },
    own: [[], []],
  }
  const environmentOf = (row: SecretRow) =>
    environments.find((name) => project.idOf(name) === row.environmentId) ?? lasting
  const read = (client: Client) => project.must<Secret>('GET', `/secret/${id}`, undefined, sessions[client])
  const snapshots: [Secret, Secret] = [await read(0), await read(1)]

  function compose(client: Client, edit: Edit): Sent & { body: unknown } {
    const snapshot = snapshots[client]
    const { name: newName, ...others } = edit.fields
    const edited = { ...others, ...(newName !== undefined && { name: called(newName) }) }
    const fields = { name: snapshot.name, note: snapshot.note, dataType: snapshot.dataType, ...edited }
    const values = snapshot.values.map((row) => {
      const wanted = row.isPersonal ? edit.own : edit.shared[environmentOf(row)]
      return wanted === undefined ? row : { ...row, value: wanted }
    })
    const rows = values.map((row): SentRow => {
      const { isPersonal: isOwn, version = 0, value = '' } = row
      return { environment: environmentOf(row), isOwn, version, value }
    })
    return {
      fields,
      rows,
      edit: withoutRepeats(snapshot, edit, fields),
      body: { ...fields, type: snapshot.type, values },
    }
  }

  /** Drops edits that are equal to what was read. */
  function withoutRepeats(snapshot: Secret, edit: Edit, fields: Fields): Edit {
    const rows = snapshot.values.filter(({ isPersonal }) => !isPersonal)
    const changed = rows.flatMap((row): [Environment, string][] => {
      const wanted = edit.shared[environmentOf(row)]
      return wanted === undefined || wanted === row.value ? [] : [[environmentOf(row), wanted]]
    })
    const ownRow = snapshot.values.find(({ isPersonal }) => isPersonal)
    const own = ownRow && edit.own !== ownRow.value ? edit.own : undefined
    const known: Fields = { name: snapshot.name, note: snapshot.note, dataType: snapshot.dataType }
    const isChanged = ([field, text]: [string, string]) => known[field as Field] !== text
    return {
      shared: Object.fromEntries(changed),
      ...(own !== undefined && { own }),
      fields: Object.fromEntries(Object.entries(fields).filter(isChanged)),
    }
  }

  const put = async (client: Client, body: unknown) =>
    (await project.ask('PUT', `/secret/${id}`, body, sessions[client])).status
  const statusOf = (next: State | undefined) => (next ? 200 : 409)

  async function expectState(expected: State): Promise<void> {
    const reads = await Promise.all([read(0), read(1)])
    for (const client of [0, 1] as const) {
      const { name, note, dataType, values } = reads[client]
      const seen = values.map((row) => [environmentOf(row), row.isPersonal, row.version, row.value])
      const rows = environments.flatMap((environment) => {
        const places: [boolean, Versions][] = [[false, expected.shared[environment]]]
        if (environment === personal) places.push([true, expected.own[client]])
        return places.flatMap(([isOwn, versions]) =>
          last(versions) === null ? [] : [[environment, isOwn, versions.length, last(versions)]],
        )
      })
      expect({ name, note, dataType, seen }).toEqual({ ...expected.fields, seen: rows })
    }
  }

  async function take(step: Step): Promise<State> {
    switch (step.do) {
      case 'read':
        snapshots[step.client] = await read(step.client)
        return state
      case 'put': {
        const sent = compose(step.client, step.edit)
        const next = putBack(state, step.client, sent)
        expect(await put(step.client, sent.body)).toBe(statusOf(next))
        if (next) expectNothingLost(state, next, step.client, sent)
        return next ?? state
      }
      case 'race': {
        const sent = [compose(0, step.edits[0]), compose(1, step.edits[1])] as const
        const answered = await Promise.all([put(0, sent[0].body), put(1, sent[1].body)])
        // The result must match one of the two orders; the statuses and the stored fields show which.
        const orders = (
          [
            [0, 1],
            [1, 0],
          ] as const
        ).map((order) => {
          const statuses = [0, 0]
          let made = state
          for (const client of order) {
            const next = putBack(made, client, sent[client])
            statuses[client] = statusOf(next)
            if (next) expectNothingLost(made, next, client, sent[client])
            made = next ?? made
          }
          return { statuses, made }
        })
        const fitting = orders.filter(({ statuses }) => statuses.join() === answered.join())
        expect(fitting, `${answered} for ${JSON.stringify(orders)}`).not.toEqual([])
        const { name, note, dataType } = await read(0)
        const stored = JSON.stringify([name, note, dataType])
        const isStored = ({ made: { fields } }: { made: State }) =>
          JSON.stringify([fields.name, fields.note, fields.dataType]) === stored
        return (fitting.find(isStored) ?? fitting[0])?.made ?? state
      }
      case 'write': {
        const { client, isOwn, value } = step
        const environment = isOwn ? personal : step.environment
        const body = { environmentId: environment, value, isPersonal: isOwn }
        await project.must('PUT', `/secret/${id}/value`, body, sessions[client])
        return withValue(state, client, environment, isOwn, value)
      }
      case 'delete': {
        const { client, isOwn } = step
        const environment = isOwn ? personal : step.environment
        const isThere = last(isOwn ? state.own[client] : state.shared[environment]) !== null
        if (!isThere || (environment === lasting && !isOwn)) return state
        const query = `environmentId=${environment}${isOwn ? '&personal=true' : ''}`
        await project.must('DELETE', `/secret/${id}?${query}`, undefined, sessions[client])
        return withValue(state, client, environment, isOwn, null)
      }
      case 'rename': {
        const to = called(step.name)
        if (to === state.fields.name) return state
        const operations = [{ op: 'rename', key: state.fields.name, to }]
        await project.must('POST', '/secret/batch', { environmentId: lasting, operations }, sessions[step.client])
        return describe(state, { name: to })
      }
      case 'note': {
        const body = { name: state.fields.name, note: step.note, values: [] }
        await project.must('PUT', `/secret/${id}`, body, sessions[step.client])
        return describe(state, { note: step.note })
      }
    }
  }

  for (const step of steps) {
    state = await take(step)
    await expectState(state)
  }
}

function withValue(
  state: State,
  client: Client,
  environment: Environment,
  isOwn: boolean,
  value: string | null,
): State {
  if (!isOwn)
    return { ...state, shared: { ...state.shared, [environment]: withVersion(state.shared[environment], value) } }
  const own: [Versions, Versions] = [...state.own]
  own[client] = withVersion(own[client], value)
  return { ...state, own }
}
