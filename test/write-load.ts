/** Workers that write secrets sequentially under their own names, and know the expected state. */
import type { Project } from '@coffer/contract/project'
import { type Dice, shuffled } from './dice.ts'

const workerCount = 8
export const environments = ['development', 'staging']

/** The objects of a worker: `development NAME` or `staging NAME` with the value, and `team NAME`. */
export type State = ReadonlyMap<string, string>
export type Step = { readonly method: string; readonly path: string; readonly body?: unknown; readonly after: State }
export type Place = { readonly workspace: string; readonly project: Project; readonly prefix: string }
export type Worker = {
  readonly prefix: string
  state: State
  /** The state if the interrupted request was applied. */
  pending: State | undefined
}
/** Called, and awaited, before each step is sent and after it is acknowledged. */
export type WriteObserver = {
  intends(worker: Worker, after: State): Promise<void>
  acknowledged(worker: Worker, requestId: string): Promise<void>
}
type WriteLoad = {
  readonly workers: readonly Worker[]
  /** Ids of the successful requests. */
  readonly acknowledged: readonly string[]
  readonly unexpected: readonly string[]
  readonly ended: Promise<unknown>
}

/** Runs until the service is down. */
export function startWriteLoad(
  url: string,
  token: string,
  place: Place,
  dice: Dice,
  observer?: WriteObserver,
): WriteLoad {
  const acknowledged: string[] = []
  const unexpected: string[] = []
  const workers = Array.from({ length: workerCount }, (_, index): Worker => {
    return { prefix: `${place.prefix}W${index}_`, state: new Map(), pending: undefined }
  })
  const work = async (worker: Worker) => {
    for (let count = 0; ; count++) {
      const { method, path, body, after } = nextStep(worker, count, place, dice)
      await observer?.intends(worker, after)
      worker.pending = after
      try {
        const response = await fetch(url + path, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const text = await response.text()
        if (response.status !== 200 && response.status !== 201) {
          unexpected.push(`${method} ${path}: ${response.status} ${text}`)
          return
        }
        const requestId = response.headers.get('x-request-id') ?? ''
        await observer?.acknowledged(worker, requestId)
        acknowledged.push(requestId)
        worker.state = after
        worker.pending = undefined
      } catch {
        return
      }
    }
  }
  return { workers, acknowledged, unexpected, ended: Promise.all(workers.map(work)) }
}

function nextStep({ prefix, state }: Worker, count: number, place: Place, dice: Dice): Step {
  const workspace = `/v1/workspace/${place.workspace}`
  const secrets = `${workspace}/project/${place.project.slug}/secret`
  const names = [...new Set([...state.keys()].filter((key) => !key.startsWith('team')).map((key) => key.split(' ')[1]))]
  const inDevelopment = names.filter((name) => state.has(`development ${name}`))
  const [one = '', other = '', third = ''] = shuffled(inDevelopment, dice)
  const fresh = `${prefix}${count}`
  const value = `value ${count} of ${prefix}`
  const after = new Map(state)
  const rename = (from: string, to: string) => {
    for (const environment of environments) {
      const old = after.get(`${environment} ${from}`)
      if (old !== undefined) after.set(`${environment} ${to}`, old)
      after.delete(`${environment} ${from}`)
    }
  }
  const choice =
    third === ''
      ? 'bulk'
      : (['single', 'single', 'bulk', 'batch', 'batch', 'rename', 'delete', 'trash', 'team'] as const)[dice(9)]
  switch (choice) {
    case 'bulk': {
      const wanted = Array.from({ length: 12 }, (_, index) => ({
        key: `${fresh}_${index}`,
        value: `${value} ${index}`,
      }))
      for (const environment of environments) {
        for (const { key, value } of wanted) after.set(`${environment} ${key}`, value)
      }
      return { method: 'POST', path: secrets, body: { environments, secrets: wanted }, after }
    }
    case 'batch': {
      const operations = [
        { op: 'rename', key: one, to: fresh },
        { op: 'set', key: other, value },
        { op: 'delete', key: third },
        ...[1, 2, 3].map((index) => ({ op: 'set', key: `${fresh}_${index}`, value })),
      ]
      rename(one, fresh)
      after.set(`development ${other}`, value).delete(`development ${third}`)
      for (const index of [1, 2, 3]) after.set(`development ${fresh}_${index}`, value)
      return { method: 'POST', path: `${secrets}/batch`, body: { environmentId: 'development', operations }, after }
    }
    case 'rename':
      rename(one, fresh)
      return { method: 'PUT', path: `${secrets}/${one}`, body: { name: fresh, values: [] }, after }
    case 'delete':
      after.delete(`development ${one}`)
      return { method: 'DELETE', path: `${secrets}/${one}?environmentId=development`, after }
    case 'trash':
      for (const environment of environments) after.delete(`${environment} ${one}`)
      return { method: 'DELETE', path: `${secrets}/${one}`, after }
    case 'team':
      after.set(`team ${fresh}`, '')
      return { method: 'POST', path: `${workspace}/team`, body: { name: fresh }, after }
    default:
      after.set(`development ${one}`, value)
      return { method: 'PUT', path: `${secrets}/${one}/value`, body: { environmentId: 'development', value }, after }
  }
}

/** The state as the service lists it. */
export function stateOf(
  { project, prefix }: Place,
  secrets: readonly { name: string; values: readonly { environmentId: string; value?: string }[] }[],
  teams: readonly { name: string }[],
): State {
  const nameOf = (id: string) => project.environments.find((environment) => environment.id === id)?.name ?? ''
  const values = secrets.flatMap(({ name, values }) =>
    values.map(({ environmentId, value = '' }): [string, string] => [`${nameOf(environmentId)} ${name}`, value]),
  )
  const own = teams.filter(({ name }) => name.startsWith(prefix))
  return new Map([...values, ...own.map(({ name }): [string, string] => [`team ${name}`, ''])])
}

export const sorted = (state: State) => [...state].sort(([a], [b]) => (a < b ? -1 : 1))
