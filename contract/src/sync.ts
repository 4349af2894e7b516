/** Syncs: the providers, the wizard that sets up a sync, and its runs. Flow steps forbid additional properties. */
import type { Endpoint } from './endpoint.ts'
import {
  closed,
  Id,
  line,
  MaybeTimestamp,
  nullable,
  ProjectPath,
  page,
  Slug,
  Success,
  Timestamp,
  Transfer,
  words,
} from './field.ts'
import { type Static, type TSchema, Type } from './schema.ts'

export const SyncProvider = Type.Object({
  id: Type.String(),
  slug: Slug,
  defaultName: Type.String(),
  logo: Type.String(),
  docs: Type.String(),
  website: Type.String(),
  soon: Type.Boolean(),
})
export type SyncProvider = Static<typeof SyncProvider>

const flowField = <const Kind extends string, Data extends Record<string, TSchema>>(kind: Kind, data: Data) =>
  Type.Object(
    { id: Type.String(), type: Type.Literal(kind), label: Type.String(), data: Type.Object(data, closed) },
    closed,
  )

const optionalText = Type.Optional(Type.String())
const optionalFlag = Type.Optional(Type.Boolean())

export const FlowField = Type.Union([
  flowField('input', {
    type: words('text', 'password'),
    placeholder: Type.String(),
    defaultValue: optionalText,
    description: optionalText,
    isRequired: optionalFlag,
  }),
  flowField('select', {
    placeholder: Type.String(),
    defaultValue: optionalText,
    isRequired: optionalFlag,
    description: optionalText,
    options: Type.Array(Type.Object({ label: Type.String(), value: Type.String() })),
  }),
  flowField('callback', { url: Type.String() }),
  flowField('copy', {
    value: Type.String(),
    description: optionalText,
    language: Type.Optional(words('text', 'json', 'bash')),
  }),
])
export type FlowField = Static<typeof FlowField>

export const FlowStep = Type.Object(
  {
    description: Type.String(),
    fields: Type.Array(FlowField),
    next: Type.Object({ text: optionalText, step: optionalText, url: optionalText }, closed),
  },
  closed,
)
export type FlowStep = Static<typeof FlowStep>

export const flowSteps = ['auth', 'target', 'mapping', 'review'] as const
export type FlowStepName = (typeof flowSteps)[number]

export const ProviderPath = Type.Object({ slug: Slug })
export type ProviderPath = Static<typeof ProviderPath>
export const NewSync = Type.Object({ projectId: Id, name: Type.Optional(line(64)) }, closed)
export type NewSync = Static<typeof NewSync>
export const StartedSync = Type.Object({ syncConfigId: Type.String() })
export type StartedSync = Static<typeof StartedSync>
export const FlowQuery = Type.Object({ syncConfigId: Id, step: words(...flowSteps) })
export type FlowQuery = Static<typeof FlowQuery>

const maxAnswerLength = 32 * 1024
export const FlowAnswers = Type.Object(
  {
    syncConfigId: Id,
    step: words(...flowSteps),
    values: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: maxAnswerLength }))),
  },
  closed,
)
export type FlowAnswers = Static<typeof FlowAnswers>
export const FlowProgress = Type.Object({ step: Type.String(), syncConfigId: Type.String() })
export type FlowProgress = Static<typeof FlowProgress>

export const syncStates = ['draft', 'active', 'paused', 'failing', 'needs_reauth', 'blocked', 'removing'] as const
export type SyncState = (typeof syncStates)[number]

const syncFields = {
  id: Id,
  provider: Slug,
  name: Type.String(),
  state: words(...syncStates),
  environmentId: nullable(Id),
  /** Human-readable, such as the repository, project or path. */
  target: nullable(Type.String()),
  lastRunAt: MaybeTimestamp,
  lastError: nullable(Type.String()),
  nextRunAt: MaybeTimestamp,
  createdAt: Timestamp,
}
export const Sync = Type.Object(syncFields)
export type Sync = Static<typeof Sync>

/** `mapping` holds the answers of the mapping step by field; answers of the auth step are never returned. */
export const SyncDetail = Type.Object({
  ...syncFields,
  mapping: Type.Record(Type.String(), Type.String()),
  account: nullable(Type.String()),
  createdById: Id,
})
export type SyncDetail = Static<typeof SyncDetail>

const names = Type.Array(Type.String())
export const SyncPlan = Type.Object({
  create: names,
  update: names,
  delete: names,
  unchanged: names,
  conflict: names,
  /** Why each name in `conflict` is not touched. */
  reasons: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() })),
  /** Keys that the target cannot hold, and why. */
  problems: Type.Array(Type.Object({ name: Type.String(), problem: Type.String() })),
})
export type SyncPlan = Static<typeof SyncPlan>

export const syncTriggers = ['first', 'settings', 'change', 'manual', 'resume', 'retry', 'drift', 'remove'] as const
export type SyncTrigger = (typeof syncTriggers)[number]
export const syncRunStates = ['succeeded', 'partial', 'failed', 'interrupted'] as const
export type SyncRunState = (typeof syncRunStates)[number]

export const syncOutcomes = [
  'created',
  'updated',
  'deleted',
  'adopted',
  'released',
  'conflict',
  'drifted',
  'failed',
] as const

export const SyncCounts = Type.Object({
  created: Type.Integer(),
  updated: Type.Integer(),
  deleted: Type.Integer(),
  unchanged: Type.Integer(),
  conflicts: Type.Integer(),
  failed: Type.Integer(),
})
export type SyncCounts = Static<typeof SyncCounts>

const runFields = {
  id: Id,
  trigger: words(...syncTriggers),
  state: words(...syncRunStates),
  startedAt: Timestamp,
  endedAt: MaybeTimestamp,
  counts: SyncCounts,
  error: nullable(Type.String()),
  /** Number of runs since the last successful one, including this one. */
  attempts: Type.Integer(),
}
export const SyncRun = Type.Object(runFields)
export type SyncRun = Static<typeof SyncRun>
export const SyncRunItem = Type.Object({
  name: Type.String(),
  outcome: words(...syncOutcomes),
  message: nullable(Type.String()),
})
export type SyncRunItem = Static<typeof SyncRunItem>
export const SyncRunDetail = Type.Object({ ...runFields, items: Type.Array(SyncRunItem) })
export type SyncRunDetail = Static<typeof SyncRunDetail>

export const SyncPath = Type.Object({ ws: Slug, prj: Slug, id: Id })
export type SyncPath = Static<typeof SyncPath>
export const SyncRunPath = Type.Object({ ws: Slug, prj: Slug, id: Id, runId: Id })
export type SyncRunPath = Static<typeof SyncRunPath>
export const SyncRemoval = Type.Object({ remove: Type.Optional(words('true', 'false')) })
export type SyncRemoval = Static<typeof SyncRemoval>
export const SyncRunQuery = Type.Object(page)
export type SyncRunQuery = Static<typeof SyncRunQuery>

const wizard = '/v1/sync/:slug'
const list = '/v1/workspace/:ws/project/:prj/sync'
const area = 'sync'

export const syncEndpoints = {
  listSyncProviders: {
    method: 'GET',
    path: '/v1/sync',
    area,
    summary: 'List the systems that secrets can be pushed to, including announced ones',
    permission: 'sync:list',
    status: 200,
    response: Type.Array(SyncProvider),
    errors: [],
  },
  startSync: {
    method: 'POST',
    path: `${wizard}/start`,
    area,
    summary: 'Start setting up a sync; nothing is pushed before the last step',
    permission: 'sync:write',
    params: ProviderPath,
    body: NewSync,
    status: 200,
    response: StartedSync,
    errors: [403, 404, 409],
  },
  readFlowStep: {
    method: 'GET',
    path: `${wizard}/flow`,
    area,
    summary: 'Read the form of one wizard step: auth, target, mapping, review',
    permission: 'sync:write',
    params: ProviderPath,
    query: FlowQuery,
    status: 200,
    response: FlowStep,
    errors: [403, 404, 409],
  },
  submitFlowStep: {
    method: 'POST',
    path: `${wizard}/flow`,
    area,
    summary: 'Submit a wizard step; `step` in the response is the next one, or `done` once the sync is active',
    permission: 'sync:write',
    params: ProviderPath,
    body: FlowAnswers,
    maxBodyBytes: 256 * 1024,
    answersIn: 'values',
    status: 200,
    response: FlowProgress,
    errors: [403, 404, 409],
  },
  listSyncs: {
    method: 'GET',
    path: list,
    area,
    summary: 'List the syncs of a project',
    permission: 'sync:read',
    params: ProjectPath,
    status: 200,
    response: Type.Array(Sync),
    errors: [403, 404],
  },
  readSync: {
    method: 'GET',
    path: `${list}/:id`,
    area,
    summary: 'Read one sync with its mapping, never its credentials',
    permission: 'sync:read',
    params: SyncPath,
    status: 200,
    response: SyncDetail,
    errors: [403, 404],
  },
  planSync: {
    method: 'POST',
    path: `${list}/:id/plan`,
    area,
    summary: 'Preview what a run would do now, by name; changes nothing',
    permission: 'sync:write',
    params: SyncPath,
    status: 200,
    response: SyncPlan,
    errors: [403, 404, 409],
  },
  runSync: {
    method: 'POST',
    path: `${list}/:id/run`,
    area,
    summary: 'Push now, also overwriting what someone else has changed at the target',
    permission: 'sync:write',
    params: SyncPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  pauseSync: {
    method: 'POST',
    path: `${list}/:id/pause`,
    area,
    summary: 'Pause a sync; nothing is pushed until it is resumed',
    permission: 'sync:write',
    params: SyncPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  resumeSync: {
    method: 'POST',
    path: `${list}/:id/resume`,
    area,
    summary: 'Resume a sync after a pause, or after someone has reviewed what blocked it',
    permission: 'sync:write',
    params: SyncPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  transferSync: {
    method: 'POST',
    path: `${list}/:id/transfer`,
    area,
    summary: 'Give a sync to a service account, whose grants then limit what it pushes',
    permission: 'sync:transfer',
    params: SyncPath,
    body: Transfer,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  deleteSync: {
    method: 'DELETE',
    path: `${list}/:id`,
    area,
    summary: 'Delete a sync; `remove=true` also deletes the entries that it created at the target',
    permission: 'sync:write',
    params: SyncPath,
    query: SyncRemoval,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
  listSyncRuns: {
    method: 'GET',
    path: `${list}/:id/run`,
    area,
    summary: 'List the runs of a sync, newest first',
    permission: 'sync:read',
    params: SyncPath,
    query: SyncRunQuery,
    status: 200,
    response: Type.Array(SyncRun),
    errors: [403, 404],
  },
  readSyncRun: {
    method: 'GET',
    path: `${list}/:id/run/:runId`,
    area,
    summary: 'Read one run with the outcome of each name',
    permission: 'sync:read',
    params: SyncRunPath,
    status: 200,
    response: SyncRunDetail,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
