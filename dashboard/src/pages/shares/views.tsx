import type { Share } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { shareViewsQuery } from '../../api/share.ts'
import { Badge } from '../../parts/badge.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'

type ViewsProps = {
  readonly place: { readonly ws: string; readonly prj: string }
  readonly share: Share
  readonly onClose: () => void
}

const outcomes = {
  success: ['opened', 'good'],
  repeated: ['opened again after a lost answer', 'plain'],
  failure: ['refused', 'warn'],
} as const

export function ViewsDrawer({ place, share, onClose }: ViewsProps) {
  const { data: views, error } = useQuery(shareViewsQuery(place, share.id))
  return (
    <Dialog title={share.label || 'Views'} kind="drawer" isOpen onClose={onClose}>
      <ErrorNote error={error} />
      {!views && !error && <Skeleton rows={3} />}
      {views?.length === 0 && <p className="text-soft">Nobody has opened it yet.</p>}
      <ul className="flex flex-col">
        {views?.map(({ at, ip, userAgent, outcome }) => {
          const [text, tone] = outcomes[outcome]
          return (
            <li key={`${at} ${ip}`} className="border-line flex flex-col gap-1 border-b py-2">
              <span className="flex items-center gap-2">
                <Badge tone={tone}>{text}</Badge>
                <Time at={at} />
                <span className="text-soft">from {ip}</span>
              </span>
              <span className="text-faint text-s break-words">{userAgent}</span>
            </li>
          )
        })}
      </ul>
    </Dialog>
  )
}
