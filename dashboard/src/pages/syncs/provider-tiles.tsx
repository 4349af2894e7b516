import type { SyncProvider } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { providersQuery } from '../../api/sync.ts'
import { Badge } from '../../parts/badge.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/page.tsx'
import './syncs.css'

type TilesProps = { readonly onChoose: (slug: string) => void; readonly busySlug: string | undefined }

/** The systems that secrets can be pushed to; announced ones cannot be chosen yet. */
export function ProviderTiles({ onChoose, busySlug }: TilesProps) {
  const { data: providers, error } = useQuery(providersQuery)
  const [filter, setFilter] = useState('')
  if (error) return <ErrorNote error={error} />
  if (!providers) return <Skeleton />
  const wanted = filter.trim().toLowerCase()
  const shown = providers.filter(({ defaultName }) => defaultName.toLowerCase().includes(wanted))
  return (
    <div className="flex flex-col gap-3">
      <div className="max-w-60">
        <TextField
          label="Find a target"
          isLabelHidden
          placeholder={`Find one of ${providers.length} targets`}
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      </div>
      <ul className="tiles">
        {shown.map((provider) => (
          <li key={provider.id}>
            <Tile provider={provider} isBusy={provider.slug === busySlug} onChoose={onChoose} />
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="text-soft">No target has this name. A webhook reaches systems of your own.</p>
      )}
    </div>
  )
}

type TileProps = {
  readonly provider: SyncProvider
  readonly isBusy: boolean
  readonly onChoose: (slug: string) => void
}

function Tile({ provider: { slug, defaultName, logo, soon }, isBusy, onChoose }: TileProps) {
  const inside = (
    <>
      {/* The logo's address names the public address of the service, which may differ from the one of this page. */}
      <img src={new URL(logo, location.origin).pathname} alt="" width="24" height="24" />
      <span className="truncate">{defaultName}</span>
      {soon && <Badge>soon</Badge>}
    </>
  )
  if (soon) return <div className="tile soon">{inside}</div>
  return (
    <button type="button" className="tile" aria-busy={isBusy || undefined} onClick={() => onChoose(slug)}>
      {inside}
    </button>
  )
}
