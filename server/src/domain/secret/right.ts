/** Rights that a write needs beyond those of its endpoint. */
import type { Role } from '@coffer/contract/field'
import { Failure } from '../../failure.ts'
import { inRole, type ProjectAccess, requireRole } from '../access/access.ts'
import type { SnapshotEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { reachesProject } from '../scope.ts'
import { personalOwner, requireReached } from './choose-environment.ts'

type Edited = { readonly isPersonal?: boolean | undefined; readonly environment?: SnapshotEnvironment }

/** Members may write their personal values; shared values need the role developer in their environment. */
export function requireWriter(ctx: Context, access: ProjectAccess, edits: readonly Edited[]): void {
  requirePerson(ctx, edits)
  if (edits.length === 0) requireDeveloper(access)
  requireDeveloperOf(access, edits)
}

/** Checks each environment once, however many of its shared values are edited. */
export function requireDeveloperOf(access: ProjectAccess, edits: readonly Edited[]): void {
  const shared = edits.filter(({ isPersonal }) => !isPersonal)
  for (const environment of new Set(shared.map((edit) => edit.environment))) requireDeveloper(access, environment)
}

export function requirePerson(ctx: Context, edits: readonly { isPersonal?: boolean | undefined }[]): void {
  if (personalOwner(ctx) !== '' || !edits.some(({ isPersonal }) => isPersonal)) return
  throw new Failure('forbidden', 'Personal values belong to people: a token cannot write them.')
}

/** Without an environment: for what all environments of the project share, such as the note of a secret. */
export function requireDeveloper(access: ProjectAccess, environment?: SnapshotEnvironment): void {
  const { project } = access
  requireRole(access, 'developer', environment ? { project, environment } : { project })
}

/** An environment of the project by id or name, in which the caller may write. */
export function requireWritable(access: ProjectAccess, idOrName: string): SnapshotEnvironment {
  const environment = requireReached(access, idOrName)
  requireDeveloper(access, environment)
  return environment
}

export function requireWholeProject(access: ProjectAccess, what: string, role: Role = 'developer'): void {
  if (reachesProject(inRole(access, role).reach, access.project)) return
  const message = reachesProject(access.reach, access.project)
    ? `This needs the role ${role} in the whole project, so you cannot ${what}: name an environment.`
    : `Your scope covers only part of this project, so you cannot ${what}: name an environment.`
  throw new Failure('forbidden', message)
}
