import type { Endpoint } from './endpoint.ts'
import { closed, EnvironmentPath, Id, ProjectPath, Success, Timestamp } from './field.ts'
import { type Static, Type } from './schema.ts'

export const Environment = Type.Object({
  id: Id,
  name: Type.String(),
  totalSecrets: Type.Integer(),
  updatedAt: Timestamp,
  hasPersonalOverrides: Type.Boolean(),
})
export type Environment = Static<typeof Environment>

const EnvironmentName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9 _-]{0,47}$', minLength: 1, maxLength: 48 })

export const NewEnvironment = Type.Object(
  { name: EnvironmentName, hasPersonalOverrides: Type.Optional(Type.Boolean()) },
  closed,
)
export type NewEnvironment = Static<typeof NewEnvironment>
export const EnvironmentChange = Type.Object(
  { name: Type.Optional(EnvironmentName), hasPersonalOverrides: Type.Optional(Type.Boolean()) },
  { ...closed, minProperties: 1 },
)
export type EnvironmentChange = Static<typeof EnvironmentChange>

const list = '/v1/workspace/:ws/project/:prj/environment'
const one = `${list}/:environmentId`

export const environmentEndpoints = {
  listEnvironments: {
    method: 'GET',
    path: list,
    area: 'environment',
    summary: 'List the environments of a project that the credential can access',
    permission: 'environment:read',
    params: ProjectPath,
    status: 200,
    response: Type.Array(Environment),
    errors: [404],
  },
  createEnvironment: {
    method: 'POST',
    path: list,
    area: 'environment',
    summary: 'Create an environment',
    permission: 'environment:create',
    params: ProjectPath,
    body: NewEnvironment,
    status: 201,
    response: Type.Object({ ...Success.properties, id: Id }),
    errors: [403, 404, 409],
  },
  updateEnvironment: {
    method: 'PUT',
    path: one,
    area: 'environment',
    summary: 'Rename an environment or allow personal values in it',
    permission: 'environment:write',
    params: EnvironmentPath,
    body: EnvironmentChange,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  deleteEnvironment: {
    method: 'DELETE',
    path: one,
    area: 'environment',
    summary: 'Delete an environment and its values',
    permission: 'environment:write',
    params: EnvironmentPath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
