import type { Endpoint } from './endpoint.ts'
import { closed, Id, IdPath, Name, Success, Timestamp, WorkspacePath } from './field.ts'
import { type Static, Type } from './schema.ts'

export const Team = Type.Object({
  id: Id,
  name: Type.String(),
  projectCount: Type.Integer(),
  createdAt: Timestamp,
})
export type Team = Static<typeof Team>

export const NewTeam = Type.Object({ name: Name }, closed)
export type NewTeam = Static<typeof NewTeam>

const list = '/v1/workspace/:ws/team'

export const teamEndpoints = {
  listTeams: {
    method: 'GET',
    path: list,
    area: 'team',
    summary: 'List the teams that the credential can access',
    permission: 'team:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(Team),
    errors: [404],
  },
  createTeam: {
    method: 'POST',
    path: list,
    area: 'team',
    summary: 'Create a team',
    permission: 'team:create',
    params: WorkspacePath,
    body: NewTeam,
    status: 201,
    response: Team,
    errors: [403, 404, 409],
  },
  updateTeam: {
    method: 'PUT',
    path: `${list}/:id`,
    area: 'team',
    summary: 'Rename a team',
    permission: 'team:write',
    params: IdPath,
    body: NewTeam,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Team.properties }),
    errors: [403, 404, 409],
  },
  deleteTeam: {
    method: 'DELETE',
    path: `${list}/:id`,
    area: 'team',
    summary: 'Delete a team that has no projects',
    permission: 'team:write',
    params: IdPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
} as const satisfies Record<string, Endpoint>
