/** The service names the field of a refused input before a colon: such a message belongs below that field. */
import { ApiError } from '@coffer/sdk'

export function fieldError(error: unknown, field: string): string | undefined {
  const prefix = `${field}: `
  if (!(error instanceof ApiError) || !error.message.startsWith(prefix)) return undefined
  const text = error.message.slice(prefix.length)
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The error for the note of a form, unless one of its fields shows it. */
export const errorBeside = (error: unknown, ...fields: readonly string[]) =>
  fields.some((field) => fieldError(error, field) !== undefined) ? undefined : error
