/** The one connection to the service, and its refusals as sentences. */
import { ApiError, ConnectionError, createApi } from '@coffer/sdk'

/** Nothing is repeated in silence: a person who waits for a rate limit must be told so. */
export const api = createApi({ url: location.origin, credential: null, timeoutMs: 30_000, retries: 0 })

export const hasStatus = (error: unknown, status: number): error is ApiError =>
  error instanceof ApiError && error.status === status

/** The service's own messages name the problem and hold no values. */
export function sentenceOf(error: unknown): string {
  if (error instanceof ConnectionError) return 'Coffer cannot be reached. Check your connection and try again.'
  if (hasStatus(error, 429)) return `Too many attempts. Try again ${waitOf(error)}.`
  if (error instanceof ApiError) return error.message
  return 'Something went wrong in this page. Reload it and try again.'
}

function waitOf({ retryAfterMs = 60_000 }: ApiError): string {
  const minutes = Math.ceil(retryAfterMs / 60_000)
  return minutes <= 1 ? 'in a minute' : `in ${minutes} minutes`
}

/** The person who is signed in, or undefined. */
export async function findPerson(): Promise<{ readonly email: string } | undefined> {
  try {
    return await api.me.read()
  } catch (error) {
    if (hasStatus(error, 401)) return undefined
    throw error
  }
}

/** A session that has ended already is as good. */
export async function signOut(): Promise<void> {
  await api.auth.logout().catch((error: unknown) => {
    if (!hasStatus(error, 401)) throw error
  })
}
