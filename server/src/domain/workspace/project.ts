import type { ProjectPath, WorkspacePath } from '@coffer/contract/field'
import type { NewProject, Project, ProjectChange, ProjectSummary, TeamGroup } from '@coffer/contract/project'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { ProjectRow } from '../../store/workspace/project.ts'
import {
  inRole,
  reachedEnvironments,
  reauthorise,
  requireProject,
  requireTeamWithin,
  requireWorkspace,
  seesProject,
  seesTeam,
} from '../access/access.ts'
import { withStoredEnvironments } from '../access/stored-environment.ts'
import { record } from '../audit/record.ts'
import type { SnapshotProject } from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import { requireClearName } from '../new-name.ts'
import { type Reach, reachesTeam } from '../scope.ts'
import { iso } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { endUses } from './environment.ts'
import { countSecrets } from './secret-count.ts'
import { checkProjectSlug } from './slug.ts'

const firstEnvironments = ['development', 'staging', 'production']

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'project', id, name })

export async function listProjects(ctx: Context, path: WorkspacePath): Promise<TeamGroup[]> {
  const access = await requireWorkspace(ctx, path, 'project:read')
  const { snapshot, reach } = access
  const seen = [...snapshot.teams.values()]
    .filter((team) => seesTeam(reach, team))
    .map((team) => ({ team, projects: team.projects.filter((project) => seesProject(reach, project)) }))
  const counts = await countSecrets(
    ctx,
    access,
    seen.flatMap(({ projects }) => projects),
  )
  return seen.map(({ team: { id, name }, projects }) => {
    return { id, name, projects: projects.map((project) => toSummary(project, reach, counts.get(project.id) ?? 0)) }
  })
}

export async function readProject(ctx: Context, path: ProjectPath): Promise<Project> {
  const { project, reach } = await requireProject(ctx, path, 'project:read')
  return toProject(project, reach)
}

export async function createProject(ctx: Context, path: WorkspacePath, body: NewProject): Promise<Project> {
  const access = await requireWorkspace(ctx, path, 'project:create')
  checkProjectSlug(body.slug)
  const team = requireTeamWithin(access, body.teamId)
  requireClearName(body.name)
  const workspaceId = access.snapshot.workspace.id
  const at = ctx.now()
  const project: ProjectRow = {
    id: newId(),
    workspaceId,
    teamId: team.id,
    name: body.name,
    slug: body.slug,
    createdAt: at,
    updatedAt: at,
  }
  const environments = firstEnvironments.map((name) => ({ id: newId(), name }))
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await requireStoredTeam(ctx, team.id, workspaceId)
    if (!(await ctx.store.projects.insert(project))) throw slugTaken(project.slug)
    for (const environment of environments) {
      const owner = { workspaceId, projectId: project.id, hasPersonalOverrides: false, createdAt: at, updatedAt: at }
      await ctx.store.environments.insert({ ...environment, ...owner })
    }
    const after = { name: project.name, slug: project.slug, teamId: team.id, environments: firstEnvironments }
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(project), projectId: project.id, after })
    announce(ctx, 'workspace', workspaceId)
  })
  return { ...body, id: project.id, teamId: team.id, environments, createdAt: iso(at), updatedAt: iso(at) }
}

export async function updateProject(
  ctx: Context,
  path: ProjectPath,
  change: ProjectChange,
): Promise<Project & { success: boolean }> {
  const access = await requireProject(ctx, path, 'project:write')
  const { project, snapshot, reach } = access
  const workspaceId = snapshot.workspace.id
  if (change.slug !== undefined) checkProjectSlug(change.slug)
  const teamId = change.teamId === undefined ? project.teamId : requireTeamWithin(access, change.teamId).id
  // A project takes its rights from its team: whoever takes it out decides for that team, too.
  if (teamId !== project.teamId) requireTeamWithin(access, project.teamId)
  const updatedAt = ctx.now()
  const after = await inTransaction(ctx, workspaceId, async (ctx) => {
    // Uses the stored row: fields that this change omits may have just changed.
    const current = await requireStored(ctx, project.id, workspaceId)
    // Without this check, an update that started before the move would put the project back into its old team.
    if (current.teamId !== project.teamId) throw new Failure('conflict', 'The project has just been moved: try again.')
    if (teamId !== current.teamId) {
      await requireStoredTeam(ctx, teamId, workspaceId)
      // Someone who has just lost the project must not move it to a team that they still reach.
      const { reach } = inRole(await reauthorise(ctx, access, 'project:write'), 'admin')
      if (![current.teamId, teamId].every((id) => reachesTeam(reach, { id }))) throw new Failure('notFound')
    }
    requireClearName(change.name, current.name)
    const before = { name: current.name, slug: current.slug, teamId: current.teamId }
    const after = { ...before, ...change, teamId }
    if (!(await ctx.store.projects.update({ ...current, ...after, updatedAt }))) throw slugTaken(after.slug)
    const event = { action: 'UPDATE', entity: entity(project), projectId: project.id, before, after } as const
    record(ctx, { chain: workspaceId, ...event })
    announce(ctx, 'workspace', workspaceId)
    return after
  })
  return { success: true, ...toProject(project, reach), ...after, updatedAt: iso(updatedAt) }
}

export async function deleteProject(ctx: Context, path: ProjectPath): Promise<void> {
  const access = await requireProject(ctx, path, 'project:write')
  const workspaceId = access.snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const { project } = await withStoredEnvironments(ctx, access)
    const current = await requireStored(ctx, project.id, workspaceId)
    // The slug may belong to another project by now.
    if (path.prj !== current.id && path.prj !== current.slug) throw new Failure('notFound')
    for (const { id } of project.environments) {
      await endUses(ctx, workspaceId, { projectId: project.id, environmentId: id })
    }
    ctx.store.projects.remove(project.id, workspaceId)
    const before = { name: current.name, slug: current.slug }
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(current), projectId: project.id, before })
    announce(ctx, 'workspace', workspaceId)
  })
}

function toSummary(project: SnapshotProject, reach: Reach, secrets: number): ProjectSummary {
  const { id, name, slug, createdAt, updatedAt } = project
  const environmentList = namedEnvironments(project, reach)
  return { id, name, slug, secrets, environments: environmentList.length, environmentList, createdAt, updatedAt }
}

function toProject(project: SnapshotProject, reach: Reach): Project {
  const { id, name, slug, teamId, createdAt, updatedAt } = project
  return { id, name, slug, teamId, environments: namedEnvironments(project, reach), createdAt, updatedAt }
}

const namedEnvironments = (project: SnapshotProject, reach: Reach) =>
  reachedEnvironments(reach, project).map(({ id, name }) => ({ id, name }))

/** Checked again under the workspace lock: the row in the workspace snapshot may have just been deleted. */
async function requireStored(ctx: WriteContext, id: string, workspaceId: string): Promise<ProjectRow> {
  const project = await ctx.store.projects.find(id, workspaceId)
  if (!project) throw new Failure('notFound')
  return project
}

async function requireStoredTeam(ctx: WriteContext, id: string, workspaceId: string): Promise<void> {
  if (!(await ctx.store.teams.find(id, workspaceId))) throw new Failure('notFound')
}

function slugTaken(slug: string): Failure {
  return new Failure('conflict', `The slug "${slug}" is taken.`)
}
