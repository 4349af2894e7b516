/** The code of an error of Node or of a library, such as ENOENT: its text, which may hold anything, is left behind. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
}
