/**
 * Returns the code of a Node or library error, such as ENOENT. The message is dropped, because it may hold anything.
 */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
}
