/** Names that the service accepts, so that a mistake is seen while typing. */
const reserved = ['batch', 'diff', 'export', 'import', 'trash', 'locate']
const id = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** A sentence that says what is wrong, or undefined. */
export function checkName(name: string, taken: (name: string) => boolean): string | undefined {
  if (name === '') return 'Give it a name.'
  if (!/^[A-Za-z0-9_-]+$/.test(name)) return 'Use letters, digits, _ and - only.'
  if (name.length > 255) return 'Use at most 255 characters.'
  if (id.test(name)) return 'A name must not look like an id.'
  if (reserved.includes(name)) return `${name} is reserved. Choose another name.`
  if (taken(name)) return `${name} exists already.`
  return undefined
}
