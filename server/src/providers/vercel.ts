/**
 * Environment variables of a Vercel project. A record may cover several environments with one value. Ours cover exactly
 * the environments of the sync; a record that also covers others is never touched.
 */
import { VendorFault, VendorRefusal } from './fault.ts'
import { unlessForbidden } from './offered-options.ts'
import {
  type Connection,
  type Op,
  type OpResult,
  type Option,
  ownerText,
  type Provider,
  type RemoteItem,
} from './provider.ts'
import type { VendorRequest, VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type EnvRecord = {
  readonly id: string
  readonly key: string
  readonly isExact: boolean
  readonly isOurs: boolean
  readonly mark: string | undefined
}
type Write = Exclude<Op, { kind: 'delete' }>

const api = 'https://api.vercel.com'
const builtIn = ['production', 'preview', 'development']
const environmentsPattern =
  /^(production|preview|development|env_[A-Za-z0-9]+)(,(production|preview|development|env_[A-Za-z0-9]+))*$/

const environmentsOf = ({ target }: Connection) => (target.environments ?? '').split(',').sort()
const branchOf = ({ target }: Connection) => (target.environments === 'preview' && target.gitBranch) || undefined

/** Vercel also answers 403 to an unknown token, but marks the response. */
function sort({ status, json }: VendorResponse) {
  if (status === 403 && at(json, 'error', 'invalidToken') === true) return 'auth' as const
  return status === 400 ? kindOf(maybeTextAt(json, 'error', 'code')) : undefined
}

function kindOf(code = '') {
  if (/^(ENV_CONFLICT|ENV_ALREADY_EXISTS)$/i.test(code)) return 'conflict' as const
  if (/^(PAYMENT_REQUIRED|MAX_ENVS.*)$/i.test(code)) return 'quota' as const
  return 'invalid' as const
}

function send(
  connection: Connection,
  path: string,
  query: Record<string, string>,
  request: Omit<VendorRequest, 'url'>,
) {
  const { credential, target, http } = connection
  const team = target.team === undefined || target.team === 'personal' ? {} : { teamId: target.team }
  const search = new URLSearchParams({ ...query, ...team }).toString()
  const url = `${api}${path}${search === '' ? '' : `?${search}`}`
  return http.send({ sort, ...request, url, headers: { authorization: `Bearer ${credential.token}` } })
}

const projectPath = ({ target }: Connection) => encodeURIComponent(target.project ?? '')

/** `cursor` is the query parameter that takes `pagination.next` of the previous page. */
async function listPages(connection: Connection, path: string, list: string, cursor: string): Promise<Option[]> {
  const options: Option[] = []
  let next: string | undefined = ''
  while (next !== undefined) {
    const query = { limit: '100', ...(next !== '' && { [cursor]: next }) }
    const { json } = await send(connection, path, query, { method: 'GET' })
    for (const item of listAt(json, list)) options.push({ label: textAt(item, 'name'), value: textAt(item, 'id') })
    next = maybeTextAt(json, 'pagination', 'next')
  }
  return options
}

async function listTeams(connection: Connection): Promise<Option[] | undefined> {
  const teams = await unlessForbidden(listPages(connection, '/v2/teams', 'teams', 'until'))
  return teams && [...teams, { label: 'Personal account', value: 'personal' }]
}

async function listEnvironments(connection: Connection): Promise<Option[]> {
  const path = `/v9/projects/${projectPath(connection)}/custom-environments`
  const answer = await unlessForbidden(send(connection, path, {}, { method: 'GET' }))
  const custom = answer === undefined ? [] : listAt(answer.json, 'environments')
  return [
    { label: 'Production', value: 'production' },
    { label: 'Preview', value: 'preview' },
    { label: 'Development', value: 'development' },
    { label: 'Production and Preview', value: 'production,preview' },
    ...custom.map((item) => ({ label: textAt(item, 'slug'), value: textAt(item, 'id') })),
  ]
}

/** Records that cover any of our environments, by name. */
async function readRecords(connection: Connection): Promise<Map<string, EnvRecord[]>> {
  const environments = environmentsOf(connection)
  const { json } = await send(connection, `/v10/projects/${projectPath(connection)}/env`, {}, { method: 'GET' })
  if (Number(at(json, 'hiddenProductionEnvCount') ?? 0) > 0 && environments.includes('production')) {
    throw new VendorFault('scope', 'The token may not read variables of production.')
  }
  const records = new Map<string, EnvRecord[]>()
  for (const item of listAt(json, 'envs')) {
    const target = at(item, 'target') ?? []
    const covered = [
      ...(Array.isArray(target) ? target : [target]),
      ...listAt({ list: at(item, 'customEnvironmentIds') ?? [] }, 'list'),
    ]
    // A variable of one branch and one for all branches are different variables.
    const isHere = (maybeTextAt(item, 'gitBranch') || undefined) === branchOf(connection)
    if (!isHere || !covered.some((one) => environments.includes(String(one)))) continue
    const record = {
      id: textAt(item, 'id'),
      key: textAt(item, 'key'),
      isExact: covered.map(String).sort().join() === environments.join(),
      isOurs: maybeTextAt(item, 'comment') === ownerText(connection.syncId),
      mark: maybeTextAt(item, 'updatedAt'),
    }
    records.set(record.key, [...(records.get(record.key) ?? []), record])
  }
  return records
}

async function* list(connection: Connection): AsyncIterable<RemoteItem> {
  for (const [name, records] of await readRecords(connection)) {
    const exact = records.find(({ isExact }) => isExact)
    yield exact === undefined
      ? { name, isOurs: false }
      : { name, id: exact.id, isOurs: exact.isOurs, ...(exact.mark !== undefined && { mark: exact.mark }) }
  }
}

const spans = () =>
  new VendorFault(
    'conflict',
    'A variable with this name covers these environments together with others: split it at Vercel first.',
  )

function bodyOf(connection: Connection, { name, value }: Write) {
  const environments = environmentsOf(connection)
  const custom = environments.filter((environment) => !builtIn.includes(environment))
  const branch = branchOf(connection)
  return {
    key: name,
    value,
    // Vercel does not allow sensitive variables in development.
    type: environments.includes('development') ? 'encrypted' : (connection.options.type ?? 'sensitive'),
    target: environments.filter((environment) => builtIn.includes(environment)),
    ...(custom.length > 0 && { customEnvironmentIds: custom }),
    ...(branch !== undefined && { gitBranch: branch }),
    comment: ownerText(connection.syncId),
  }
}

/** Single names may fail even if the response as a whole succeeds. */
async function* post(connection: Connection, ops: readonly Write[], upsert: boolean): AsyncIterable<OpResult> {
  if (ops.length === 0) return
  const { json } = await send(
    connection,
    `/v10/projects/${projectPath(connection)}/env`,
    upsert ? { upsert: 'true' } : {},
    { method: 'POST', json: ops.map((op) => bodyOf(connection, op)) },
  )
  const created = [at(json, 'created') ?? []].flat()
  const failed = listAt(json, 'failed').map((item) => at(item, 'error'))
  const isAbout = (error: unknown, name: string) => [at(error, 'key'), at(error, 'envVarKey')].includes(name)
  for (const { name } of ops) {
    const record = created.find((item) => at(item, 'key') === name)
    const error = failed.find((item) => isAbout(item, name)) ?? (record === undefined ? (failed[0] ?? {}) : undefined)
    if (error !== undefined) {
      const vendorMessage = maybeTextAt(error, 'message')
      const facts = vendorMessage === undefined ? {} : { vendorMessage }
      yield {
        name,
        fault: new VendorRefusal(kindOf(maybeTextAt(error, 'code')), 'Vercel refused the variable.', facts),
      }
      continue
    }
    const mark = maybeTextAt(record, 'updatedAt')
    yield { name, id: textAt(record, 'id'), ...(mark !== undefined && { mark }) }
  }
}

async function* remove(connection: Connection, found: ReadonlyMap<string, EnvRecord>): AsyncIterable<OpResult> {
  if (found.size === 0) return
  const { json } = await send(
    connection,
    `/v1/projects/${projectPath(connection)}/env`,
    {},
    {
      method: 'DELETE',
      json: { ids: [...found.values()].map(({ id }) => id) },
    },
  )
  const deleted = listAt(json, 'ids')
  for (const [name, { id }] of found) {
    const fault = new VendorFault('protocol', 'Vercel did not confirm that the variable was deleted.')
    yield deleted.includes(id) ? { name } : { name, fault }
  }
}

async function* apply(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const records = await readRecords(connection)
  const creates: Write[] = []
  const updates: Write[] = []
  const deletes = new Map<string, EnvRecord>()
  for (const op of ops) {
    const there = records.get(op.name) ?? []
    const exact = there.find(({ isExact }) => isExact)
    if (exact === undefined && there.length > 0) yield { name: op.name, fault: spans() }
    else if (op.kind === 'delete' && exact === undefined) yield { name: op.name }
    else if (op.kind === 'delete' && exact !== undefined) deletes.set(op.name, exact)
    else if (op.kind === 'create' && exact?.isOurs === false) {
      yield { name: op.name, fault: new VendorFault('conflict', 'The project already has a variable with this name.') }
    } else if (op.kind !== 'delete') (exact === undefined ? creates : updates).push(op)
  }
  // Variables that did not exist a moment ago are created without permission to overwrite.
  yield* post(connection, creates, false)
  yield* post(connection, updates, true)
  yield* remove(connection, deletes)
}

export const vercel: Provider = {
  slug: 'vercel',
  name: 'Vercel',
  website: 'https://vercel.com',
  docs: 'https://vercel.com/docs/rest-api/projects/create-one-or-more-environment-variables',
  glyph: { text: '▲', colour: '#000000' },
  notes: [
    'New values take effect with the next deployment.',
    'A variable that also covers other environments is left alone: split it at Vercel first.',
    'Sensitive variables cannot be read back. Changes by others are detected by their time. Variables of development cannot be sensitive.',
    'All variables of a deployment together have at most 64 KB. Vercel reserves names that start with VERCEL_ and some others.',
  ],
  capabilities: {
    read: 'mark',
    bulk: 50,
    mixes: false,
    ownerMark: 'comment',
    marksUpdates: true,
    guard: 'mark',
    defaultMode: 'per-key',
  },
  limits: {
    name: /^(?!VERCEL_)[A-Za-z][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, starting with a letter, but not with VERCEL_',
    nameMax: 256,
    valueMaxBytes: 64 * 1024,
    allowsEmpty: true,
    totalMaxBytes: 64 * 1024,
    rate: { perSecond: 2, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'where',
      label: 'Create a token',
      description: 'Limit the token to the team of the project and let it expire.',
      language: 'text',
      text: () => 'https://vercel.com/account/settings/tokens',
    },
    { kind: 'password', id: 'token', label: 'Access token' },
  ],
  async verify(connection) {
    const { json } = await send(connection, '/v2/user', {}, { method: 'GET' })
    return maybeTextAt(json, 'user', 'email') ?? textAt(json, 'user', 'username')
  },
  target: [
    {
      kind: 'select',
      id: 'team',
      label: 'Team',
      options: listTeams,
      check: (value) =>
        /^(personal|team_[A-Za-z0-9]+)$/.test(value) ? undefined : 'is not an id that starts with team_.',
    },
    {
      kind: 'select',
      id: 'project',
      label: 'Project',
      after: ['team'],
      options: (connection) => unlessForbidden(listPages(connection, '/v10/projects', 'projects', 'from')),
      check: (value) => (/^(?!\.+$)[A-Za-z0-9_.-]{1,100}$/.test(value) ? undefined : 'is not a project’s id or name.'),
    },
    {
      kind: 'select',
      id: 'environments',
      label: 'Environments',
      after: ['project'],
      options: listEnvironments,
      check: (value) =>
        environmentsPattern.test(value)
          ? undefined
          : 'is not production, preview, development or the id of a custom environment.',
    },
    {
      kind: 'text',
      id: 'gitBranch',
      label: 'Git branch',
      isFree: true,
      description: 'Limits the variables to previews of this branch. If empty, they apply to all previews.',
      isOptional: true,
      after: ['environments'],
      when: ({ environments }) => environments === 'preview',
      check: (value) => (/^[^\s\p{Cc}~^:?*[\\]{1,250}$/u.test(value) ? undefined : 'is not the name of a branch.'),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'type',
      label: 'Type',
      isStored: true,
      defaultValue: 'sensitive',
      options: [
        { label: 'Sensitive: nobody can read it at Vercel', value: 'sensitive' },
        { label: 'Encrypted: members can read it at Vercel', value: 'encrypted' },
      ],
    },
  ],
  describeTarget: ({ team = '', project = '', environments = '', gitBranch = '' }) => ({
    label: [project, environments, gitBranch].filter((part) => part !== '').join(', '),
    fingerprint: JSON.stringify([team, project, environments.split(',').sort(), gitBranch]),
  }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => list(connection),
    apply: (ops) => apply(connection, ops),
  }),
}
