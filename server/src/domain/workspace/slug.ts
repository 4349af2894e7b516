import { reservedSlugs, reservedWorkspaceSlugs } from '@coffer/contract/workspace'
import { invalid } from '../../failure.ts'
import { isId } from '../id.ts'

/** Paths accept a slug or an id in the same position, next to fixed words, so a slug must not look like either. */
export const checkProjectSlug = (slug: string) => checkSlug(slug, reservedSlugs, 'slug')

export const checkWorkspaceSlug = (slug: string, field = 'slug') => checkSlug(slug, reservedWorkspaceSlugs, field)

function checkSlug(slug: string, reserved: ReadonlySet<string>, field: string): void {
  if (reserved.has(slug)) throw invalid(field, `"${slug}" is a reserved word.`)
  if (isId(slug)) throw invalid(field, 'must not look like an id.')
}
