import type { Share } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { revokeShare, sharesQuery } from '../../api/share.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { NewShareDialog } from './new-share.tsx'
import { ViewsDrawer } from './views.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/shares')

export function Shares() {
  const place = route.useParams()
  const { canWrite } = useProjectRights()
  const { data: shares, error } = useQuery({ ...sharesQuery(place), enabled: canWrite })
  const [isCreating, setCreating] = useState(false)
  const [viewed, setViewed] = useState<Share>()
  const [revoked, setRevoked] = useState<Share>()
  if (!canWrite) {
    return (
      <ProjectPage>
        <EmptyState title="Shares are made by people who write secrets">
          <p>Ask an admin of this project if you should.</p>
        </EmptyState>
      </ProjectPage>
    )
  }
  const create = (
    <Button kind="primary" onClick={() => setCreating(true)}>
      New share
    </Button>
  )
  return (
    <ProjectPage actions={create}>
      <ErrorNote error={error} />
      {!shares && !error && <Skeleton />}
      {shares?.length === 0 && (
        <EmptyState title="Lend a secret by a link">
          <p>
            For somebody without an account: a few secrets or a text, readable a limited number of times until a time of
            your choice. It is encrypted in this browser, and the key is only in the link.
          </p>
        </EmptyState>
      )}
      {shares && shares.length > 0 && (
        <Table label="Shares" columns={['Share', 'State', 'Views', 'Ends', 'Made', 'Last view', '']}>
          {shares.map((share) => (
            <tr key={share.id}>
              <th scope="row">
                {share.label || <span className="text-soft">no label</span>}{' '}
                {share.kind === 'e2e' && <Badge>end to end</Badge>} {share.hasPassword && <Badge>password</Badge>}
              </th>
              <td>
                <ShareState share={share} />
              </td>
              <td>
                {share.views} of {share.maxViews}
                {share.failures > 0 && <span className="text-warn">, {share.failures} failed</span>}
              </td>
              <td className="text-soft">
                <Time at={share.expiresAt} />
              </td>
              <td className="text-soft">
                <Time at={share.createdAt} />
              </td>
              <td className="text-soft">{share.lastViewedAt === null ? 'never' : <Time at={share.lastViewedAt} />}</td>
              <td className="text-right whitespace-nowrap">
                <Button kind="quiet" aria-label={`Views of ${nameOf(share)}`} onClick={() => setViewed(share)}>
                  Views
                </Button>
                {share.state === 'active' && (
                  <Button kind="quiet" aria-label={`Revoke ${nameOf(share)}`} onClick={() => setRevoked(share)}>
                    Revoke
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isCreating && <NewShareDialog place={place} onClose={() => setCreating(false)} />}
      {viewed && <ViewsDrawer place={place} share={viewed} onClose={() => setViewed(undefined)} />}
      <ConfirmDialog
        title="Revoke this share?"
        isOpen={revoked !== undefined}
        onClose={() => setRevoked(undefined)}
        action="Revoke"
        onConfirm={async () => {
          if (revoked) await revokeShare(place, revoked.id)
          say('The link does not work any more.')
        }}
      >
        <p>Its link stops working and its contents are erased. Whoever has opened it keeps what they saw.</p>
      </ConfirmDialog>
    </ProjectPage>
  )
}

const nameOf = ({ label, id }: Share) => label || `share ${id.slice(-6)}`

const states = {
  active: ['open', 'good'],
  exhausted: ['used up', 'plain'],
  expired: ['expired', 'plain'],
  revoked: ['revoked', 'plain'],
  locked: ['locked after wrong passwords', 'bad'],
} as const

function ShareState({ share }: { readonly share: Share }) {
  const [text, tone] = states[share.state]
  return <Badge tone={tone}>{text}</Badge>
}
