/** Compares what two reaches cover, place by place: the workspace as a whole, its teams, projects and environments. */
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import { type Reach, reachesAll, reachesEnvironment, reachesProject, reachesTeam } from '../scope.ts'

type Check = (reach: Reach) => boolean

function* placesOf({ teams, projects, environments }: WorkspaceSnapshot): Generator<Check> {
  yield reachesAll
  for (const team of teams.values()) yield (reach) => reachesTeam(reach, team)
  for (const project of projects.values()) {
    yield (reach) => reachesProject(reach, project)
  }
  for (const environment of environments.values()) {
    const project = projects.get(environment.projectId)
    if (project) yield (reach) => reachesEnvironment(reach, project, environment)
  }
}

/** True if `wide` reaches every place that `narrow` reaches. */
export const covers = (snapshot: WorkspaceSnapshot, wide: Reach, narrow: Reach): boolean =>
  placesOf(snapshot).every((reaches) => !reaches(narrow) || reaches(wide))
