import type { SyncCounts, SyncRun } from '@coffer/sdk'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { runQuery, runsQuery } from '../../api/sync.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Section, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { absoluteTime, Time } from '../../parts/time.tsx'

type SyncPlace = { readonly ws: string; readonly prj: string; readonly id: string }

const triggers: Readonly<Record<SyncRun['trigger'], string>> = {
  first: 'first push',
  settings: 'new settings',
  change: 'a change',
  manual: 'a person',
  resume: 'resumed',
  retry: 'another try',
  drift: 'check for drift',
  remove: 'removal',
}

const tones = { succeeded: 'good', partial: 'warn', failed: 'bad', interrupted: 'warn' } as const

export function Runs({ place }: { readonly place: SyncPlace }) {
  const runs = useInfiniteQuery({ ...runsQuery(place), refetchInterval: 10_000 })
  const [open, setOpen] = useState<SyncRun>()
  const all = runs.data?.pages.flatMap((page) => page.runs) ?? []
  return (
    <Section title="Pushes">
      <ErrorNote error={runs.error} />
      {runs.isPending && <Skeleton rows={3} />}
      {runs.data && all.length === 0 && <p className="text-soft">It has not pushed yet.</p>}
      {all.length > 0 && (
        <Table label="Pushes" columns={['When', 'Because of', 'Result', 'Entries', '']}>
          {all.map((run) => (
            <tr key={run.id}>
              <td>
                <Time at={run.startedAt} />
              </td>
              <td className="text-soft">{triggers[run.trigger]}</td>
              <td>
                <Badge tone={tones[run.state]}>{run.state}</Badge>
              </td>
              <td className="text-soft">{countsInWords(run.counts)}</td>
              <td className="text-right">
                <Button
                  kind="quiet"
                  onClick={() => setOpen(run)}
                  aria-label={`Details of ${absoluteTime(run.startedAt)}`}
                >
                  Details
                </Button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {runs.hasNextPage && (
        <div>
          <Button isBusy={runs.isFetchingNextPage} onClick={() => void runs.fetchNextPage()}>
            Load more
          </Button>
        </div>
      )}
      {open && <RunDrawer place={place} run={open} onClose={() => setOpen(undefined)} />}
    </Section>
  )
}

function countsInWords(counts: SyncCounts): string {
  const parts = Object.entries(counts).filter(([name, count]) => count > 0 && name !== 'unchanged')
  return parts.length === 0 ? 'nothing to do' : parts.map(([name, count]) => `${count} ${name}`).join(', ')
}

type DrawerProps = { readonly place: SyncPlace; readonly run: SyncRun; readonly onClose: () => void }

function RunDrawer({ place, run, onClose }: DrawerProps) {
  const { data, error } = useQuery(runQuery({ ...place, runId: run.id }))
  return (
    <Dialog title={`Push of ${absoluteTime(run.startedAt)}`} kind="drawer" isOpen onClose={onClose}>
      <ErrorNote error={error ?? run.error ?? undefined} />
      {!data && !error && <Skeleton />}
      {data?.items.length === 0 && <p className="text-soft">No entry was touched.</p>}
      {data && data.items.length > 0 && (
        <Table label="Entries" columns={['Name', 'Outcome']}>
          {data.items.map(({ name, outcome, message }) => (
            <tr key={name}>
              <th scope="row" className="font-mono break-all">
                {name}
              </th>
              <td>
                {outcome}
                {message !== null && <p className="hint">{message}</p>}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Dialog>
  )
}
