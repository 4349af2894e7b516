import type { Endpoint } from './endpoint.ts'
import { closed, Id, Name, ProjectPath, Slug, Success, Timestamp, WorkspacePath } from './field.ts'
import { type Static, Type } from './schema.ts'

const EnvironmentName = Type.Object({ id: Id, name: Type.String() })

export const ProjectSummary = Type.Object({
  id: Id,
  name: Type.String(),
  slug: Slug,
  secrets: Type.Integer(),
  environments: Type.Integer(),
  /** The environments that `environments` counts: a scope names them by id alone. */
  environmentList: Type.Array(EnvironmentName),
  createdAt: Timestamp,
  updatedAt: Timestamp,
})
export type ProjectSummary = Static<typeof ProjectSummary>

export const TeamGroup = Type.Object({ id: Id, name: Type.String(), projects: Type.Array(ProjectSummary) })
export type TeamGroup = Static<typeof TeamGroup>

export const Project = Type.Object({
  id: Id,
  name: Type.String(),
  slug: Slug,
  teamId: Id,
  environments: Type.Array(EnvironmentName),
  createdAt: Timestamp,
  updatedAt: Timestamp,
})
export type Project = Static<typeof Project>

export const NewProject = Type.Object({ name: Name, slug: Slug, teamId: Id }, closed)
export type NewProject = Static<typeof NewProject>
export const ProjectChange = Type.Object(
  { name: Type.Optional(Name), slug: Type.Optional(Slug), teamId: Type.Optional(Id) },
  { ...closed, minProperties: 1 },
)
export type ProjectChange = Static<typeof ProjectChange>

const list = '/v1/workspace/:ws/project'
const one = `${list}/:prj`

export const projectEndpoints = {
  listProjects: {
    method: 'GET',
    path: list,
    area: 'project',
    summary: 'List the projects that the credential can access, grouped by team',
    permission: 'project:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(TeamGroup),
    errors: [404],
  },
  createProject: {
    method: 'POST',
    path: list,
    area: 'project',
    summary: 'Create a project with the environments development, staging and production',
    permission: 'project:create',
    params: WorkspacePath,
    body: NewProject,
    status: 201,
    response: Project,
    errors: [403, 404, 409],
  },
  readProject: {
    method: 'GET',
    path: one,
    area: 'project',
    summary: 'Read one project',
    permission: 'project:read',
    params: ProjectPath,
    status: 200,
    response: Project,
    errors: [404],
  },
  updateProject: {
    method: 'PUT',
    path: one,
    area: 'project',
    summary: 'Rename a project, change its slug or move it to another team',
    permission: 'project:write',
    params: ProjectPath,
    body: ProjectChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Project.properties }),
    errors: [403, 404, 409],
  },
  deleteProject: {
    method: 'DELETE',
    path: one,
    area: 'project',
    summary: 'Delete a project and everything in it',
    permission: 'project:write',
    params: ProjectPath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
