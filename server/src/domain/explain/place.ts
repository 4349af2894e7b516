/** The place that a question about access names, with what contains it. */
import type { ExplainQuery } from '@coffer/contract/access'
import { Failure, invalid } from '../../failure.ts'
import {
  findEnvironmentByName,
  type SnapshotEnvironment,
  type SnapshotProject,
  type SnapshotTeam,
  type WorkspaceSnapshot,
} from '../cache/workspace-snapshot.ts'
import { isId } from '../id.ts'

/** Empty for the whole workspace. A place always comes with the places that it lies in. */
export type Place = {
  readonly team?: SnapshotTeam
  readonly project?: SnapshotProject
  readonly environment?: SnapshotEnvironment
}

type Named = Pick<ExplainQuery, 'team' | 'project' | 'environment'>

export function requirePlace(snapshot: WorkspaceSnapshot, named: Named): Place {
  const { environment, project, team } = named
  if (environment !== undefined) {
    const home = project === undefined ? undefined : requireProjectNamed(snapshot, project)
    return within(named, snapshot, placeOfEnvironment(snapshot, requireEnvironmentNamed(snapshot, environment, home)))
  }
  if (project !== undefined) return within(named, snapshot, placeOf(snapshot, requireProjectNamed(snapshot, project)))
  return team === undefined ? {} : { team: requireTeamNamed(snapshot, team) }
}

export function placeOf(snapshot: WorkspaceSnapshot, project: SnapshotProject): Place {
  const team = snapshot.teams.get(project.teamId)
  return { project, ...(team && { team }) }
}

function placeOfEnvironment(snapshot: WorkspaceSnapshot, environment: SnapshotEnvironment): Place {
  const project = snapshot.projects.get(environment.projectId)
  return { environment, ...(project && placeOf(snapshot, project)) }
}

function within({ team }: Named, snapshot: WorkspaceSnapshot, place: Place): Place {
  if (team !== undefined && requireTeamNamed(snapshot, team).id !== place.team?.id) {
    throw invalid('team', 'is not the team of the project.')
  }
  return place
}

function requireTeamNamed({ teams }: WorkspaceSnapshot, idOrName: string): SnapshotTeam {
  const byId = teams.get(idOrName.toLowerCase())
  if (byId) return byId
  const [team, another] = teams.values().filter(({ name }) => name === idOrName)
  if (!team) throw new Failure('notFound', `There is no team ${idOrName} in this workspace.`)
  if (another) throw invalid('team', 'is the name of several teams: give the id.')
  return team
}

function requireProjectNamed({ projects, projectsBySlug }: WorkspaceSnapshot, slugOrId: string): SnapshotProject {
  const project = projectsBySlug.get(slugOrId) ?? projects.get(slugOrId.toLowerCase())
  if (!project) throw new Failure('notFound', `There is no project ${slugOrId} in this workspace.`)
  return project
}

function requireEnvironmentNamed(
  { environments }: WorkspaceSnapshot,
  idOrName: string,
  project: SnapshotProject | undefined,
): SnapshotEnvironment {
  if (!project && !isId(idOrName)) throw invalid('environment', 'is a name: give its project too, or its id.')
  const byId = environments.get(idOrName.toLowerCase())
  const found = project && byId?.projectId !== project.id ? findEnvironmentByName(project, idOrName) : byId
  if (found) return found
  const where = project ? `the project ${project.name}` : 'this workspace'
  throw new Failure('notFound', `There is no environment ${idOrName} in ${where}.`)
}
