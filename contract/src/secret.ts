import type { Endpoint } from './endpoint.ts'
import { closed, Id, line, ProjectPath, repeated, Slug, Success, Timestamp, variants, words } from './field.ts'
import { type Static, Type } from './schema.ts'

export const maxValueBytes = 64 * 1024
export const maxSecretsPerRequest = 10_000
export const maxEnvironmentsPerRequest = 100

/** 1-255 characters, and never shaped like an id, because paths accept both. */
export const SecretName = Type.String({ minLength: 1, maxLength: 255, pattern: '^[A-Za-z0-9_-]+$' })
/** Path segments that follow `secret/`; no new secret may have one of these names. */
export const reservedSecretNames = ['batch', 'diff', 'export', 'import', 'trash', 'locate'] as const
/** A name or an id in a path. Text that can be neither is answered with 404, like an absent secret. */
export const SecretKey = Type.String({ minLength: 1, maxLength: 4_096 })
/** Any text up to 64 KiB, kept byte for byte. The size in bytes is checked on write. */
export const SecretValue = Type.String({ maxLength: maxValueBytes })
export const DataType = words('text', 'json', 'multiline', 'url', 'number', 'boolean')
export type DataType = Static<typeof DataType>
const SecretType = Type.String({ minLength: 1, maxLength: 32, pattern: '^[A-Za-z0-9_-]+$' })
/** Text that may hold line breaks, but no NUL, which not every database can store. */
const plainText = (maxLength: number) => Type.String({ maxLength, pattern: '^[^\\u0000]*$' })
const Note = plainText(4_096)
export const Message = plainText(512)
/** An environment by its id or its name. */
export const EnvironmentKey = line(48)

export const Reminder = Type.Object({
  id: Id,
  type: words('one_time', 'recurring'),
  nextReminderDate: Timestamp,
})
export type Reminder = Static<typeof Reminder>

export const SecretRow = Type.Object({
  environmentId: Id,
  value: Type.Optional(Type.String()),
  isPersonal: Type.Boolean(),
  /** Absent if references were resolved: a resolved value must not be written back. */
  version: Type.Optional(Type.Integer()),
  updatedAt: Timestamp,
  unresolved: Type.Optional(Type.Array(Type.String())),
  reminder: Type.Optional(Reminder),
  /** With `view=cells`, instead of `value`. */
  isEmpty: Type.Optional(Type.Boolean()),
  references: Type.Optional(Type.Array(Type.String())),
  /** Rows of one secret with equal values have the same number. It means nothing outside of the response. */
  same: Type.Optional(Type.Integer()),
})
export type SecretRow = Static<typeof SecretRow>

export const Secret = Type.Object({
  id: Id,
  name: Type.String(),
  note: Type.String(),
  type: Type.String(),
  dataType: DataType,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  values: Type.Array(SecretRow),
})
export type Secret = Static<typeof Secret>

const readQuery = {
  environmentId: Type.Optional(repeated(EnvironmentKey, { maxItems: maxEnvironmentsPerRequest })),
  resolve: Type.Optional(Type.Boolean()),
  onUnresolved: Type.Optional(words('keep', 'empty', 'error')),
  view: Type.Optional(words('full', 'keys', 'cells')),
}
/** An empty text matches everything. */
export const SearchText = Type.String({ maxLength: 255, pattern: '^[^\\u0000-\\u001f\\u007f]*$' })
export const SecretQuery = Type.Object(readQuery)
export type SecretQuery = Static<typeof SecretQuery>
export const SecretListQuery = Type.Object({ ...readQuery, q: Type.Optional(SearchText) })
export type SecretListQuery = Static<typeof SecretListQuery>

export const SecretPath = Type.Object({ ws: Slug, prj: Slug, key: SecretKey })
export type SecretPath = Static<typeof SecretPath>

export const writeModes = ['create', 'upsert', 'skip'] as const
export const Mode = words(...writeModes)
export type WriteMode = (typeof writeModes)[number]

export const NewSecrets = Type.Object(
  {
    environments: Type.Array(EnvironmentKey, { minItems: 1, maxItems: maxEnvironmentsPerRequest }),
    secrets: Type.Array(
      Type.Object(
        {
          key: SecretName,
          value: SecretValue,
          type: Type.Optional(SecretType),
          dataType: Type.Optional(DataType),
          note: Type.Optional(Note),
        },
        closed,
      ),
      { minItems: 1, maxItems: maxSecretsPerRequest },
    ),
    mode: Type.Optional(Mode),
    message: Type.Optional(Message),
    dryRun: Type.Optional(Type.Boolean()),
  },
  closed,
)
export type NewSecrets = Static<typeof NewSecrets>

export const WriteResult = Type.Object({
  key: Type.String(),
  environmentId: Id,
  status: words('created', 'updated', 'skipped', 'unchanged', 'deleted', 'renamed'),
  id: Id,
  version: Type.Integer(),
  /** Present for a personal value. */
  isPersonal: Type.Optional(Type.Boolean()),
})
export type WriteResult = Static<typeof WriteResult>
export const WriteResults = Type.Object({ ...Success.properties, results: Type.Array(WriteResult) })
export type WriteResults = Static<typeof WriteResults>

/**
 * A row may be sent back just as it was read. Its `version` guards it, and its `updatedAt` where the secret has been made
 * anew under its name; its other fields are accepted and ignored.
 */
const UpdatedRow = Type.Object(
  {
    environmentId: EnvironmentKey,
    value: SecretValue,
    isPersonal: Type.Optional(Type.Boolean()),
    version: Type.Optional(Type.Integer({ minimum: 0 })),
    updatedAt: Type.Optional(Type.Unknown()),
    unresolved: Type.Optional(Type.Unknown()),
    reminder: Type.Optional(Type.Unknown()),
  },
  closed,
)
export const SecretChange = Type.Object(
  {
    name: SecretName,
    type: Type.Optional(SecretType),
    dataType: Type.Optional(DataType),
    note: Type.Optional(Note),
    values: Type.Array(UpdatedRow, { maxItems: 200 }),
    message: Type.Optional(Message),
  },
  closed,
)
export type SecretChange = Static<typeof SecretChange>

export const ValueChange = Type.Object(
  {
    environmentId: EnvironmentKey,
    value: SecretValue,
    isPersonal: Type.Optional(Type.Boolean()),
    ifVersion: Type.Optional(Type.Integer({ minimum: 0 })),
    message: Type.Optional(Message),
  },
  closed,
)
export type ValueChange = Static<typeof ValueChange>

/** One environment. Every query that takes `environmentId` also accepts `environment_id`. */
export const oneEnvironment = { environmentId: Type.Optional(EnvironmentKey) }
export const SecretDeletion = Type.Object({
  ...oneEnvironment,
  personal: Type.Optional(Type.Boolean()),
  purge: Type.Optional(Type.Boolean()),
})
export type SecretDeletion = Static<typeof SecretDeletion>

export const TrashedSecret = Type.Object({
  id: Id,
  name: Type.String(),
  note: Type.String(),
  type: Type.String(),
  dataType: DataType,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  deletedAt: Timestamp,
  purgeAt: Timestamp,
})
export type TrashedSecret = Static<typeof TrashedSecret>

const IfVersion = Type.Optional(Type.Integer({ minimum: 0 }))
/** The environment of one operation; absent, it is that of the batch. */
const ownEnvironment = { environmentId: Type.Optional(EnvironmentKey) }
const written = { ...ownEnvironment, isPersonal: Type.Optional(Type.Boolean()), ifVersion: IfVersion }
export const SecretBatch = Type.Object(
  {
    ...ownEnvironment,
    message: Type.Optional(Message),
    dryRun: Type.Optional(Type.Boolean()),
    operations: Type.Array(
      variants(
        'op',
        Type.Object(
          {
            op: Type.Literal('set'),
            key: SecretName,
            value: SecretValue,
            note: Type.Optional(Note),
            ...written,
          },
          { title: 'SetOperation', ...closed },
        ),
        Type.Object(
          { op: Type.Literal('rename'), key: SecretName, to: SecretName, ...ownEnvironment },
          { title: 'RenameOperation', ...closed },
        ),
        Type.Object(
          { op: Type.Literal('delete'), key: SecretName, ...written },
          { title: 'DeleteOperation', ...closed },
        ),
      ),
      { minItems: 1, maxItems: maxSecretsPerRequest },
    ),
  },
  closed,
)
export type SecretBatch = Static<typeof SecretBatch>
export const RevisionResults = Type.Object({ ...WriteResults.properties, revision: Type.Integer() })
export type RevisionResults = Static<typeof RevisionResults>
/** `revision` is that of the batch's own environment or, if it names none, of the first operation's. */
export const BatchResults = Type.Object({
  ...RevisionResults.properties,
  revisions: Type.Array(Type.Object({ environmentId: Id, revision: Type.Integer() })),
})
export type BatchResults = Static<typeof BatchResults>

/** Paths of the secrets of a project, and of one secret. */
export const secretsPath = '/v1/workspace/:ws/project/:prj/secret'
export const secretPath = `${secretsPath}/:key`

export const secretEndpoints = {
  listSecrets: {
    method: 'GET',
    path: secretsPath,
    area: 'secret',
    summary: 'List the secrets of a project, sorted by name',
    permission: 'secret:read',
    params: ProjectPath,
    query: SecretListQuery,
    status: 200,
    response: Type.Array(Secret),
    errors: [404, 409],
    withoutValues: ['keys', 'cells'],
    isCached: true,
  },
  readSecret: {
    method: 'GET',
    path: secretPath,
    area: 'secret',
    summary: 'Read one secret by name or id',
    permission: 'secret:read',
    params: SecretPath,
    query: SecretQuery,
    status: 200,
    response: Secret,
    errors: [404, 409],
    withoutValues: ['keys', 'cells'],
    isCached: true,
  },
  listScopedSecrets: {
    method: 'GET',
    path: '/v1/secrets',
    area: 'secret',
    summary: 'Read the resolved secrets of the only environment in the scope of the credential',
    permission: 'secret:list',
    status: 200,
    response: Type.Array(Secret),
    errors: [404, 409],
    isCached: true,
  },
  createSecrets: {
    method: 'POST',
    path: secretsPath,
    area: 'secret',
    summary: 'Write many secrets to one or more environments, all or nothing',
    permission: 'secret:write',
    params: ProjectPath,
    body: NewSecrets,
    status: 201,
    response: WriteResults,
    errors: [403, 404, 409],
    dryRuns: true,
  },
  updateSecret: {
    method: 'PUT',
    path: secretPath,
    area: 'secret',
    summary: 'Change a secret; only the listed rows are written',
    permission: 'secret:update',
    params: SecretPath,
    body: SecretChange,
    status: 200,
    response: Success,
    errors: [403, 404, 409, 412],
    isConditional: true,
  },
  writeSecretValue: {
    method: 'PUT',
    path: `${secretPath}/value`,
    area: 'secret',
    summary: 'Write one value, optionally only if it still has the version that you read',
    permission: 'secret:update',
    params: SecretPath,
    body: ValueChange,
    status: 200,
    response: Type.Object({ ...Success.properties, version: Type.Integer() }),
    errors: [403, 404, 409, 412],
    isConditional: true,
  },
  deleteSecret: {
    method: 'DELETE',
    path: secretPath,
    area: 'secret',
    summary: 'Delete one environment’s value, or move the whole secret to the trash for 30 days',
    permission: 'secret:update',
    params: SecretPath,
    query: SecretDeletion,
    status: 200,
    response: Success,
    errors: [403, 404, 412],
    isConditional: true,
  },
  listTrash: {
    method: 'GET',
    path: `${secretsPath}/trash`,
    area: 'secret',
    summary: 'List the secrets in the trash',
    permission: 'secret:read',
    params: ProjectPath,
    status: 200,
    response: Type.Array(TrashedSecret),
    errors: [404],
  },
  restoreSecret: {
    method: 'POST',
    path: `${secretPath}/restore`,
    area: 'secret',
    summary: 'Restore a secret from the trash',
    permission: 'secret:write',
    params: SecretPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  writeBatch: {
    method: 'POST',
    path: `${secretsPath}/batch`,
    area: 'secret',
    summary: 'Set, rename and delete secrets, as one revision of each environment',
    permission: 'secret:update',
    params: ProjectPath,
    body: SecretBatch,
    status: 200,
    response: BatchResults,
    errors: [403, 404, 409, 412],
  },
} as const satisfies Record<string, Endpoint>
