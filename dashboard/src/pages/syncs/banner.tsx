import type { SyncDetail } from '@coffer/sdk'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Button } from '../../parts/button.tsx'
import { Note } from '../../parts/note.tsx'
import { Time } from '../../parts/time.tsx'

type SyncPlace = { readonly ws: string; readonly prj: string; readonly id: string }

type BannerProps = {
  readonly place: SyncPlace
  readonly sync: SyncDetail
  readonly onResume: () => void
  readonly onRun: () => void
  readonly isBusy: boolean
}

/** Why a sync does not push, and the one action that helps. */
export function Banner({ place, sync, onResume, onRun, isBusy }: BannerProps) {
  const { state, lastError, nextRunAt } = sync
  const resume = (text: string) => (
    <Button kind="primary" isBusy={isBusy} onClick={onResume}>
      {text}
    </Button>
  )
  const step = (name: 'auth' | 'review', text: string) => (
    <Link
      className="button primary"
      to="/$ws/$prj/syncs/new/$slug/$step"
      params={{ ws: place.ws, prj: place.prj, slug: sync.provider, step: name }}
      search={{ id: place.id }}
    >
      {text}
    </Link>
  )
  switch (state) {
    case 'draft':
      return (
        <Message action={step('auth', 'Continue the setup')}>
          Nothing is pushed yet. An unfinished setup is deleted after a day.
        </Message>
      )
    case 'needs_reauth':
      return (
        <Message tone="bad" action={step('auth', 'Enter a new credential')}>
          {lastError ?? 'The target refuses the credential.'}
        </Message>
      )
    case 'blocked':
      return (
        <Message tone="bad" action={resume('Resume')}>
          {lastError ?? 'The sync waits for a person.'} Look at the plan below before you resume.
        </Message>
      )
    case 'failing':
      return (
        <Message
          tone="warn"
          action={
            <Button kind="primary" isBusy={isBusy} onClick={onRun}>
              Try now
            </Button>
          }
        >
          {lastError ?? 'The last pushes failed.'}{' '}
          {nextRunAt !== null && (
            <>
              Next try <Time at={nextRunAt} />.
            </>
          )}
        </Message>
      )
    case 'paused':
      return <Message action={resume('Resume')}>Paused. Changes are pushed once you resume.</Message>
    case 'removing':
      return <Message>{lastError ?? 'The entries at the target are being deleted, and then the sync.'}</Message>
    case 'active':
      return lastError === null ? null : <Message tone="warn">{lastError}</Message>
  }
}

type MessageProps = {
  readonly tone?: 'plain' | 'warn' | 'bad'
  readonly action?: ReactNode
  readonly children: ReactNode
}

function Message({ tone = 'plain', action, children }: MessageProps) {
  return (
    <Note tone={tone}>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="min-w-0">{children}</p>
        {action}
      </div>
    </Note>
  )
}
