/** The address of the service that somebody signs in to. */
import { usageError } from '../error.ts'
import { isLoopback } from '../place/loopback.ts'

export const defaultUrl = 'http://localhost:8080'

/** One spelling for each service, because logins are kept by address. `localhost:8080` gets a scheme. */
export function parseServiceAddress(text: string): string {
  const complete = text.includes('://') ? text : `${isLoopback(`http://${text}`) ? 'http' : 'https'}://${text}`
  const url = URL.canParse(complete) ? new URL(complete) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw usageError(
      'The address of the service must be an http(s) URL without user, password, query and fragment.',
      'coffer login https://coffer.example.com',
    )
  }
  return url.href.replace(/\/+$/, '')
}
