import { ApiError } from '@coffer/sdk'
import { Button } from '../parts/button.tsx'
import { sentenceOf } from '../parts/error-note.tsx'
import { EmptyState } from '../parts/page.tsx'

/** A page that could not be shown says why, and offers to try again. */
export function PageFailed({ error, reset }: { readonly error: unknown; readonly reset: () => void }) {
  if (error instanceof ApiError && error.status === 404) return <PageMissing />
  if (error instanceof ApiError && error.status === 403) {
    return (
      <main>
        <ShutOutPage refusal={error} onRetry={reset} />
      </main>
    )
  }
  return (
    <main className="p-6">
      <title>Coffer</title>
      <EmptyState title="This page cannot be shown" action={<Button onClick={reset}>Try again</Button>}>
        <p>{sentenceOf(error)}</p>
      </EmptyState>
    </main>
  )
}

type ShutOutProps = {
  readonly workspace?: string
  readonly refusal: ApiError
  readonly onRetry: () => unknown
}

/** For people who do not meet the policy of a workspace: the sentence says what to do, and the links lead there. */
export function ShutOutPage({ workspace = 'This workspace', refusal, onRetry }: ShutOutProps) {
  return (
    <div className="p-6">
      <title>{`${workspace} · Coffer`}</title>
      <EmptyState
        title={`${workspace} does not let you in at the moment`}
        action={
          <div className="flex flex-wrap items-center gap-4">
            <a className="button primary" href="/me">
              Go to your account
            </a>
            <Button onClick={() => void onRetry()}>Try again</Button>
            <a className="link" href="/?all=true">
              All workspaces
            </a>
          </div>
        }
      >
        <p>{sentenceOf(refusal)}</p>
      </EmptyState>
    </div>
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
