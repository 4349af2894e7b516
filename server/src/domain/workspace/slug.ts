import { reservedSlugs } from '@coffer/contract/workspace'
import { invalid } from '../../failure.ts'

/** A path takes a slug or an id in the same place, and words of its own beside them: a slug may look like neither. */
export function checkSlug(slug: string, field = 'slug'): void {
  if (reservedSlugs.has(slug)) throw invalid(field, `"${slug}" is a reserved word.`)
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(slug)) throw invalid(field, 'must not look like an id.')
}
