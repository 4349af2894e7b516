import { getRouteApi, Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useRights } from '../../api/use-rights.ts'
import { EmptyState, Page } from '../../parts/page.tsx'

const route = getRouteApi('/signed-in/$ws')

type AccessPageProps = { readonly actions?: ReactNode; readonly children: ReactNode }

/** People without the right to manage the workspace have their own tokens here, and nothing else. */
export function AccessPage({ actions, children }: AccessPageProps) {
  const { ws } = route.useParams()
  const { canManageWorkspace } = useRights()
  const tabs = (
    <nav className="tabs" aria-label="Access">
      {canManageWorkspace && (
        <>
          <Link to="/$ws/-/access/members" params={{ ws }}>
            Members
          </Link>
          <Link to="/$ws/-/access/service-accounts" params={{ ws }}>
            Service accounts
          </Link>
        </>
      )}
      <Link to="/$ws/-/access/tokens" params={{ ws }}>
        Tokens
      </Link>
      {canManageWorkspace && (
        <>
          <Link to="/$ws/-/access/identities" params={{ ws }}>
            Identities
          </Link>
          <Link to="/$ws/-/access/who" params={{ ws }}>
            Who can…?
          </Link>
        </>
      )}
    </nav>
  )
  return (
    <Page title="Access" tabs={tabs} actions={actions}>
      {children}
    </Page>
  )
}

/** For somebody who follows a link to a page of admins. */
export function ManagersOnly({
  what,
  place = 'of this workspace',
}: {
  readonly what: string
  readonly place?: string
}) {
  const { ws } = route.useParams()
  const { canAdminister } = useRights()
  const link = (
    <Link className="link" to="/$ws/-/access/tokens" params={{ ws }}>
      Your tokens
    </Link>
  )
  return (
    <AccessPage>
      <EmptyState title={`You cannot see the ${what} ${place}`} action={link}>
        <p>
          {canAdminister
            ? 'This needs an admin whose scope is the whole workspace; yours is a part of it.'
            : 'Only admins can. If you need to know or change something here, ask one.'}
        </p>
      </EmptyState>
    </AccessPage>
  )
}
