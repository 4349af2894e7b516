import { ApiError, ConnectionError } from '@coffer/sdk'
import './note.css'

/** A sentence for a person. The service's own messages name the problem and hold no values. */
export function sentenceOf(error: unknown): string {
  if (error instanceof ConnectionError) return 'Coffer cannot be reached. Check your connection and try again.'
  if (error instanceof ApiError) {
    if (error.status === 401) return 'Your session has ended. Sign in again.'
    if (error.status === 429) return 'Too many requests. Wait a minute and try again.'
    if (error.message === 'Not found.') return 'This no longer exists, or you no longer have access to it.'
    return error.message
  }
  return 'Something went wrong in this page. Reload it and try again.'
}

/** Stands next to where the problem happened. Renders nothing without an error. */
export function ErrorNote({ error }: { readonly error: unknown }) {
  if (error === undefined || error === null) return null
  return (
    <p role="alert" className="note bad">
      {typeof error === 'string' ? error : sentenceOf(error)}
    </p>
  )
}
