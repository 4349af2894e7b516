import { reservedSlugs } from '@coffer/contract/workspace'
import { invalid } from '../../failure.ts'
import { isId } from '../id.ts'

/** Paths accept a slug or an id in the same position, next to fixed words, so a slug must not look like either. */
export function checkSlug(slug: string, field = 'slug'): void {
  if (reservedSlugs.has(slug)) throw invalid(field, `"${slug}" is a reserved word.`)
  if (isId(slug)) throw invalid(field, 'must not look like an id.')
}
