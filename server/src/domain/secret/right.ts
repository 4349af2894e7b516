/** Rights that a write needs beyond those of its endpoint. */
import { Failure } from '../../failure.ts'
import { hasRole, type ProjectAccess } from '../access/access.ts'
import type { Context } from '../context.ts'
import { reachesProject } from '../scope.ts'
import { personalOwner } from './choose-environment.ts'

/** Members may write their personal values; shared values need the role developer. */
export function requireWriter(
  ctx: Context,
  access: ProjectAccess,
  edits: readonly { isPersonal?: boolean | undefined }[],
): void {
  requirePerson(ctx, edits)
  if (edits.length === 0 || edits.some(({ isPersonal }) => !isPersonal)) requireDeveloper(access)
}

export function requirePerson(ctx: Context, edits: readonly { isPersonal?: boolean | undefined }[]): void {
  if (personalOwner(ctx) !== '' || !edits.some(({ isPersonal }) => isPersonal)) return
  throw new Failure('forbidden', 'Personal values belong to people: a token cannot write them.')
}

export function requireDeveloper(access: ProjectAccess): void {
  if (!hasRole(access, 'developer')) throw new Failure('forbidden', 'This needs the role developer.')
}

export function requireWholeProject(access: ProjectAccess, what: string): void {
  if (!reachesProject(access.reach, access.project)) {
    throw new Failure(
      'forbidden',
      `Your scope covers only part of this project, so you cannot ${what}: name an environment.`,
    )
  }
}
