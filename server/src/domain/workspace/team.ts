import type { IdPath, WorkspacePath } from '@coffer/contract/field'
import type { NewTeam, Team } from '@coffer/contract/team'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { TeamRow } from '../../store/workspace/team.ts'
import { requireTeam, requireWorkspace, seesProject, seesTeam } from '../access/access.ts'
import { record } from '../audit/record.ts'
import type { SnapshotTeam } from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import { requireClearName } from '../new-name.ts'
import type { Reach } from '../scope.ts'
import { iso } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'team', id, name })

export async function listTeams(ctx: Context, path: WorkspacePath): Promise<Team[]> {
  const { snapshot, reach } = await requireWorkspace(ctx, path, 'team:read')
  return [...snapshot.teams.values()].filter((team) => seesTeam(reach, team)).map((team) => toTeam(team, reach))
}

export async function createTeam(ctx: Context, path: WorkspacePath, body: NewTeam): Promise<Team> {
  const { snapshot } = await requireWorkspace(ctx, path, 'team:create')
  requireClearName(body.name)
  const team = { id: newId(), workspaceId: snapshot.workspace.id, name: body.name, createdAt: ctx.now() }
  await inTransaction(ctx, team.workspaceId, async (ctx) => {
    if (!(await ctx.store.teams.insert(team))) throw nameTaken(team.name)
    record(ctx, { chain: team.workspaceId, action: 'CREATE', entity: entity(team), after: { name: team.name } })
    announce(ctx, 'workspace', team.workspaceId)
  })
  return { id: team.id, name: team.name, projectCount: 0, createdAt: iso(team.createdAt) }
}

export async function updateTeam(ctx: Context, path: IdPath, body: NewTeam): Promise<Team & { success: boolean }> {
  const { snapshot, team, reach } = await requireTeam(ctx, path, 'team:write')
  const workspaceId = snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await requireStored(ctx, team.id, workspaceId)
    requireClearName(body.name, current.name)
    if (!(await ctx.store.teams.rename(team.id, workspaceId, body.name, ctx.now()))) throw nameTaken(body.name)
    const names = { before: { name: current.name }, after: { name: body.name } }
    record(ctx, { chain: workspaceId, action: 'UPDATE', entity: entity(current), ...names })
    announce(ctx, 'workspace', workspaceId)
  })
  return { success: true, ...toTeam(team, reach), name: body.name }
}

export async function deleteTeam(ctx: Context, path: IdPath): Promise<void> {
  const { snapshot, team } = await requireTeam(ctx, path, 'team:write')
  const workspaceId = snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await requireStored(ctx, team.id, workspaceId)
    if (await ctx.store.teams.hasProjects(team.id, workspaceId)) {
      throw new Failure('conflict', 'This team has projects: move or delete them first.')
    }
    ctx.store.teams.remove(team.id, workspaceId)
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(current), before: { name: current.name } })
    announce(ctx, 'workspace', workspaceId)
  })
}

/** Checked again under the workspace lock: the row in the workspace snapshot may have just been deleted. */
async function requireStored(ctx: WriteContext, id: string, workspaceId: string): Promise<TeamRow> {
  const team = await ctx.store.teams.find(id, workspaceId)
  if (!team) throw new Failure('notFound')
  return team
}

function toTeam(team: SnapshotTeam, reach: Reach): Team {
  const projectCount = team.projects.filter((project) => seesProject(reach, project)).length
  return { id: team.id, name: team.name, projectCount, createdAt: team.createdAt }
}

function nameTaken(name: string): Failure {
  return new Failure('conflict', `A team named "${name}" already exists.`)
}
