import type { Endpoint } from './endpoint.ts'
import { closed, EnvironmentPath, line, ProjectPath, page, Slug, Success, Timestamp, words } from './field.ts'
import { type Static, Type } from './schema.ts'
import { Message, oneEnvironment, RevisionResults, SecretKey, SecretName, writeModes } from './secret.ts'

const EnvironmentKey = line(48)
const Count = Type.Integer({ minimum: 1, maximum: 2_000_000_000 })

export const SecretVersion = Type.Object({
  version: Type.Integer(),
  createdAt: Timestamp,
  createdBy: Type.String(),
  message: Type.String(),
  deleted: Type.Boolean(),
})
export type SecretVersion = Static<typeof SecretVersion>
export const SecretVersionValue = Type.Object({ ...SecretVersion.properties, value: Type.Optional(Type.String()) })
export type SecretVersionValue = Static<typeof SecretVersionValue>

export const Revision = Type.Object({
  revision: Type.Integer(),
  createdAt: Timestamp,
  createdBy: Type.String(),
  message: Type.String(),
  changes: Type.Array(
    Type.Object({
      key: Type.String(),
      action: words('created', 'updated', 'deleted', 'renamed'),
      from: Type.Optional(Type.String()),
    }),
  ),
})
export type Revision = Static<typeof Revision>

export const VersionQuery = Type.Object(oneEnvironment)
export type VersionQuery = Static<typeof VersionQuery>
export const VersionListQuery = Type.Object({ ...oneEnvironment, ...page })
export type VersionListQuery = Static<typeof VersionListQuery>
export const RevisionListQuery = Type.Object(page)
export type RevisionListQuery = Static<typeof RevisionListQuery>

const SecretPath = { ws: Slug, prj: Slug, key: SecretKey }
export const VersionsPath = Type.Object(SecretPath)
export type VersionsPath = Static<typeof VersionsPath>
export const VersionPath = Type.Object({ ...SecretPath, version: Count })
export type VersionPath = Static<typeof VersionPath>
export const RevisionPath = Type.Object({
  ...EnvironmentPath.properties,
  revision: Type.Integer({ minimum: 0, maximum: 2_000_000_000 }),
})
export type RevisionPath = Static<typeof RevisionPath>

export const VersionRestore = Type.Object({ environmentId: EnvironmentKey }, closed)
export type VersionRestore = Static<typeof VersionRestore>
export const RevisionRestore = Type.Object(
  { dryRun: Type.Optional(Type.Boolean()), message: Type.Optional(Message) },
  closed,
)
export type RevisionRestore = Static<typeof RevisionRestore>

const State = line(128)
export const DiffQuery = Type.Object({ from: State, to: State, values: Type.Optional(Type.Boolean()) })
export type DiffQuery = Static<typeof DiffQuery>
const Keys = Type.Array(Type.String())
export const Diff = Type.Object({
  added: Keys,
  removed: Keys,
  changed: Keys,
  same: Keys,
  values: Type.Optional(
    Type.Record(Type.String(), Type.Object({ from: Type.Optional(Type.String()), to: Type.Optional(Type.String()) })),
  ),
})
export type Diff = Static<typeof Diff>

export const Promotion = Type.Object(
  {
    from: EnvironmentKey,
    keys: Type.Optional(Type.Array(SecretName, { minItems: 1, maxItems: 10_000 })),
    mode: Type.Optional(words(...writeModes)),
    message: Type.Optional(Message),
    dryRun: Type.Optional(Type.Boolean()),
    ifDiff: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  },
  closed,
)
export type Promotion = Static<typeof Promotion>
export const Promoted = Type.Object({ ...RevisionResults.properties, diff: Type.String() })
export type Promoted = Static<typeof Promoted>

const project = '/v1/workspace/:ws/project/:prj'
const versions = `${project}/secret/:key/version`
const environment = `${project}/environment/:environmentId`

export const historyEndpoints = {
  listVersions: {
    method: 'GET',
    path: versions,
    area: 'secret',
    summary: 'List the versions of a value, newest first',
    permission: 'secret:read',
    params: VersionsPath,
    query: VersionListQuery,
    status: 200,
    response: Type.Array(SecretVersion),
    errors: [404],
  },
  readVersion: {
    method: 'GET',
    path: `${versions}/:version`,
    area: 'secret',
    summary: 'Read one version with its value',
    permission: 'secret:read',
    params: VersionPath,
    query: VersionQuery,
    status: 200,
    response: SecretVersionValue,
    errors: [404],
  },
  restoreVersion: {
    method: 'POST',
    path: `${versions}/:version/restore`,
    area: 'secret',
    summary: 'Restore an earlier value as a new version',
    permission: 'secret:write',
    params: VersionPath,
    body: VersionRestore,
    status: 200,
    response: Type.Object({ ...Success.properties, version: Type.Integer() }),
    errors: [403, 404, 409],
  },
  listRevisions: {
    method: 'GET',
    path: `${environment}/revision`,
    area: 'secret',
    summary: 'List the revisions of an environment, one per write, newest first',
    permission: 'secret:read',
    params: EnvironmentPath,
    query: RevisionListQuery,
    status: 200,
    response: Type.Array(Revision),
    errors: [404],
  },
  restoreRevision: {
    method: 'POST',
    path: `${environment}/revision/:revision/restore`,
    area: 'secret',
    summary: 'Restore all keys of an environment to an earlier revision, as a new revision',
    permission: 'secret:write',
    params: RevisionPath,
    body: RevisionRestore,
    status: 200,
    response: RevisionResults,
    errors: [403, 404, 409],
  },
  diffSecrets: {
    method: 'GET',
    path: `${project}/secret/diff`,
    area: 'secret',
    summary: 'Compare two environments, revisions or points in time',
    permission: 'secret:read',
    params: ProjectPath,
    query: DiffQuery,
    status: 200,
    response: Diff,
    errors: [404],
  },
  promoteSecrets: {
    method: 'POST',
    path: `${environment}/promote`,
    area: 'secret',
    summary: 'Copy secrets from another environment of the project',
    permission: 'secret:write',
    params: EnvironmentPath,
    body: Promotion,
    status: 200,
    response: Promoted,
    errors: [403, 404, 409, 412],
  },
} as const satisfies Record<string, Endpoint>
