const maxLength = 48

/** Suggests a slug for a name: "Café Shop" is `cafe-shop`. Empty if the name has too few letters for one. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, maxLength)
    .replace(/^-|-$/g, '')
  return slug.length < 2 ? '' : slug
}
