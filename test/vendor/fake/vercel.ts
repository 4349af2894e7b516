/**
 * Vercel's environment variables of one project; driven by @vercel/sdk, whose schemas check each request in the deep
 * tier.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { loadJudge } from '../load-judge.ts'

export type EnvRecord = {
  id: string
  key: string
  value: string
  type: string
  target: string[]
  customEnvironmentIds?: string[]
  gitBranch?: string
  comment?: string
  createdAt: number
  updatedAt: number
}
type NewRecord = Omit<EnvRecord, 'id' | 'createdAt' | 'updatedAt'>

type Schema = { safeParse(value: unknown): { success: boolean; data?: unknown } }

const models = '@vercel/sdk/models'
const creating = await loadJudge<Record<string, Schema>>(`${models}/createprojectenvop.js`)
const removing = await loadJudge<Record<string, Schema>>(`${models}/batchremoveprojectenvop.js`)
const createSchema = creating?.CreateProjectEnvRequestBody$outboundSchema
const removeSchema = removing?.BatchRemoveProjectEnvRequestBody$outboundSchema

const token = 'fake-vercel-token-0001'
const team = 'team_fake0001'
const project = 'prj_fake0001'
const custom = 'env_fakestaging'

export type FakeVercel = Fake & {
  readonly records: EnvRecord[]
  /** A change by a person on Vercel's site. */
  add(record: Partial<EnvRecord> & { key: string; value: string; target: string[] }): EnvRecord
  /** Simulates a token whose role cannot read production variables. */
  hideProduction(): void
}

export function fakeVercel(environments = 'production', gitBranch?: string): FakeVercel {
  const records: EnvRecord[] = []
  const violations: string[] = []
  const watched = environments.split(',')
  let exists = true
  let hidesProduction = false
  let clock = 1_760_000_000_000
  let ids = 0

  const refuse = (status: number, code: string, message: string, more = {}): FakeAnswer => ({
    status,
    body: { error: { code, message, ...more } },
  })
  const covered = (record: Pick<EnvRecord, 'target' | 'customEnvironmentIds'>) =>
    [...record.target, ...(record.customEnvironmentIds ?? [])].sort()

  function answer(request: FakeRequest): FakeAnswer {
    const { method, path, query } = request
    if (request.headers.authorization !== `Bearer ${token}`) {
      return refuse(403, 'forbidden', 'Not authorized', { invalidToken: true })
    }
    if (path === '/v2/user') return { status: 200, body: { user } }
    if (path === '/v2/teams')
      return page(
        request,
        'teams',
        [
          { id: 'team_fake0002', name: 'Labs' },
          { id: team, name: 'Shop' },
        ],
        'until',
      )
    if (query.get('teamId') !== team) return refuse(403, 'forbidden', 'Not authorized')
    if (path === '/v10/projects') {
      const projects = [{ id: 'prj_fake0002', name: 'docs' }, ...(exists ? [{ id: project, name: 'shop' }] : [])]
      return page(request, 'projects', projects, 'from')
    }
    if (!exists || !path.startsWith(`/v${path.split('/')[1]?.slice(1)}/projects/${project}/`)) {
      return refuse(404, 'not_found', 'Project not found.')
    }
    if (path === `/v9/projects/${project}/custom-environments`) {
      return { status: 200, body: { accountLimit: { total: 1 }, environments: [environment] } }
    }
    if (path === `/v10/projects/${project}/env` && method === 'GET') return listRecords()
    if (path === `/v10/projects/${project}/env` && method === 'POST') return createRecords(request)
    if (path === `/v1/projects/${project}/env` && method === 'DELETE') return removeRecords(request)
    violations.push(`${method} ${path}`)
    return refuse(404, 'not_found', 'The page could not be found.')
  }

  const user = {
    limited: true,
    avatar: null,
    defaultTeamId: team,
    email: 'ops@example.com',
    id: 'user-fake',
    name: null,
    username: 'ops',
  }
  const environment = { id: custom, slug: 'staging', type: 'preview', createdAt: 1, updatedAt: 1 }

  function page(
    { query }: FakeRequest,
    name: string,
    items: { id: string; name: string }[],
    cursor: string,
  ): FakeAnswer {
    const size = Math.min(fake.pageSize ?? 100, Number(query.get('limit') ?? 20))
    const from = Number(query.get(cursor) ?? 0)
    const next = from + size < items.length ? from + size : null
    const shown = items.slice(from, from + size)
    return { status: 200, body: { [name]: shown, pagination: { count: shown.length, next, prev: null } } }
  }

  function listRecords(): FakeAnswer {
    const isHidden = (record: EnvRecord) => hidesProduction && record.target.includes('production')
    // Values are encrypted in the response, and those of sensitive variables are omitted.
    const envs = records.filter((record) => !isHidden(record)).map((record) => shown(record))
    return { status: 200, body: { envs, hiddenProductionEnvCount: records.filter(isHidden).length } }
  }

  const shown = (record: EnvRecord) => ({
    ...record,
    value: record.type === 'sensitive' ? '' : 'eyJ2IjoidjIiLCJzZWFsZWQiOnRydWV9',
    securityIssues: [],
    decrypted: false,
  })

  /** The body must be what the vendor's client would send, without extra fields. */
  function judge(schema: Schema | undefined, json: unknown): boolean {
    if (schema === undefined) return true
    const { success, data } = schema.safeParse(json)
    const isFine = success && isDeepStrictEqual(data, json)
    if (!isFine) violations.push(`a body that the vendor’s schema does not allow: ${JSON.stringify(json)}`)
    return isFine
  }

  function createRecords({ json, query }: FakeRequest): FakeAnswer {
    if (!judge(createSchema, json)) return refuse(400, 'bad_request', 'Invalid request')
    const created: unknown[] = []
    const failed: { error: { code: string; message: string } }[] = []
    for (const given of [json].flat() as NewRecord[]) {
      const error = refusalOf(given)
      const others = records.filter(
        (record) =>
          record.key === given.key &&
          record.gitBranch === (given.gitBranch ?? undefined) &&
          covered(record).some((one) => covered(given).includes(one)),
      )
      const same = others.find((record) => isDeepStrictEqual(covered(record), covered(given)))
      if (error !== undefined) failed.push({ error: { ...error, key: given.key } as typeof error })
      else if (others.length > 0 && (same === undefined || query.get('upsert') !== 'true')) {
        const code = same === undefined ? 'ENV_CONFLICT' : 'ENV_ALREADY_EXISTS'
        const message = `Another Environment Variable with the same Name and Environment exists; yours is ${given.value}`
        failed.push({
          error: { code, message, envVarKey: given.key, envVarId: others[0]?.id } as { code: string; message: string },
        })
      } else created.push(shown(same === undefined ? add(given) : Object.assign(same, given, { updatedAt: ++clock })))
    }
    const [first] = failed
    if (!Array.isArray(json) && first !== undefined) return { status: 400, body: first }
    return { status: 201, body: { created: Array.isArray(json) ? created : created[0], failed } }
  }

  function refusalOf({ key, type, target, value }: NewRecord) {
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(key) || fake.refusedNames.has(key)) {
      return { code: 'BAD_REQUEST', message: `The name "${key}" contains invalid characters; its value was ${value}` }
    }
    if (key.startsWith('VERCEL_')) return { code: 'RESERVED_ENV_VARIABLE', message: 'The name is reserved.' }
    if (type === 'sensitive' && target.includes('development')) {
      return {
        code: 'BAD_REQUEST',
        message: 'You cannot set a Sensitive Environment Variable’s target to development.',
      }
    }
    return undefined
  }

  function add(record: Partial<EnvRecord> & { key: string; value: string; target: string[] }): EnvRecord {
    const made = { type: 'encrypted', ...record, id: `env${++ids}`, createdAt: ++clock, updatedAt: clock }
    records.push(made)
    return made
  }

  function removeRecords({ json }: FakeRequest): FakeAnswer {
    if (!judge(removeSchema, json)) return refuse(400, 'bad_request', 'Invalid request')
    const { ids } = json as { ids: string[] }
    const known = ids.filter((id) => records.some((record) => record.id === id))
    for (const id of known)
      records.splice(
        records.findIndex((record) => record.id === id),
        1,
      )
    return { status: 200, body: { deleted: known.length, ids: known } }
  }

  const isWatched = (record: EnvRecord) =>
    record.gitBranch === gitBranch && covered(record).some((one) => watched.includes(one))

  const fake: FakeVercel = {
    hosts: ['api.vercel.com'],
    credential: { token },
    wrongCredential: { token: 'fake-vercel-token-0002' },
    target: { team, project, environments, ...(gitBranch !== undefined && { gitBranch }) },
    options: {},
    answer,
    violations,
    state: () => new Map(records.filter(isWatched).map(({ key, value }) => [key, value])),
    tamper(key, value) {
      const found = records.find((record) => record.key === key && isWatched(record))
      if (value === undefined) records.splice(0, records.length, ...records.filter((record) => record !== found))
      else if (found !== undefined) Object.assign(found, { value, updatedAt: ++clock })
      else {
        const customEnvironmentIds = watched.filter((one) => one.startsWith('env_'))
        add({
          key,
          value,
          target: watched.filter((one) => !one.startsWith('env_')),
          ...(customEnvironmentIds.length > 0 && { customEnvironmentIds }),
          ...(gitBranch !== undefined && { gitBranch }),
        })
      }
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 2, look: 1 },
    records,
    add,
    hideProduction: () => {
      hidesProduction = true
    },
  }
  return fake
}
