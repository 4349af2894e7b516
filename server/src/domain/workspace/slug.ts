import { reservedSlugs } from '@coffer/contract/workspace'
import { invalid } from '../../failure.ts'

/** Paths accept a slug or an id in the same position, next to fixed words, so a slug must not look like either. */
export function checkSlug(slug: string, field = 'slug'): void {
  if (reservedSlugs.has(slug)) throw invalid(field, `"${slug}" is a reserved word.`)
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(slug)) throw invalid(field, 'must not look like an id.')
}
