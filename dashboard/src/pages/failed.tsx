import { ApiError } from '@coffer/sdk'
import { Button } from '../parts/button.tsx'
import { sentenceOf } from '../parts/error-note.tsx'
import { EmptyState } from '../parts/page.tsx'

/** A page that could not be shown says why, and offers to try again. */
export function PageFailed({ error, reset }: { readonly error: unknown; readonly reset: () => void }) {
  if (error instanceof ApiError && (error.status === 404 || error.status === 403)) return <PageMissing />
  return (
    <main className="p-6">
      <title>Coffer</title>
      <EmptyState title="This page cannot be shown" action={<Button onClick={reset}>Try again</Button>}>
        <p>{sentenceOf(error)}</p>
      </EmptyState>
    </main>
  )
}

/** The service does not say which of the two it is: names that are out of reach must not be probeable. */
export function PageMissing() {
  return (
    <main className="p-6">
      <title>Not found · Coffer</title>
      <EmptyState
        title="There is nothing here for you"
        action={
          <a className="link" href="/">
            Your workspaces
          </a>
        }
      >
        <p>It does not exist, or you have no access to it. If you should, ask an admin of the workspace.</p>
      </EmptyState>
    </main>
  )
}
