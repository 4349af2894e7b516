import type { Session } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { useAction } from '../../parts/action.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Section, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { deviceOf } from './device.ts'

const sessionsKey = ['sessions']
const refresh = () => queryClient.invalidateQueries({ queryKey: sessionsKey })

export function Sessions() {
  const { data: sessions, error } = useQuery({ queryKey: sessionsKey, queryFn: () => api.me.listSessions() })
  const [isEnding, setEnding] = useState(false)
  const others = sessions?.filter(({ current }) => !current) ?? []
  return (
    <Section
      title="Sessions"
      hint="Browsers and command lines that are signed in as you."
      actions={others.length > 0 && <Button onClick={() => setEnding(true)}>End all others</Button>}
    >
      <ErrorNote error={error} />
      {!sessions && !error && <Skeleton rows={2} />}
      {sessions && (
        <Table label="Sessions" columns={['Device', 'Address', 'Last seen', 'Signed in', '']}>
          {sessions.map((session) => (
            <SessionRow key={session.id} session={session} />
          ))}
        </Table>
      )}
      <ConfirmDialog
        title="End all other sessions?"
        isOpen={isEnding}
        onClose={() => setEnding(false)}
        action={`End ${plural(others.length, 'session')}`}
        onConfirm={async () => {
          await api.me.revokeOtherSessions()
          await refresh()
          say('All other sessions have ended.')
        }}
      >
        <p>Other browsers and command lines must sign in again. This one stays signed in.</p>
      </ConfirmDialog>
    </Section>
  )
}

function SessionRow({ session }: { readonly session: Session }) {
  const { id, ip, userAgent, createdAt, lastSeenAt, current } = session
  const device = deviceOf(session)
  const { run, isBusy, error } = useAction(async () => {
    await api.me.revokeSession({ id })
    await refresh()
    say('The session has ended.')
  })
  return (
    <tr>
      <th scope="row" title={userAgent}>
        <span className="flex items-center gap-2 whitespace-nowrap">
          {device}
          {current && <Badge tone="good">this one</Badge>}
        </span>
        <ErrorNote error={error} />
      </th>
      <td>
        <code>{ip}</code>
      </td>
      <td className="whitespace-nowrap text-soft">
        <Time at={lastSeenAt} />
      </td>
      <td className="whitespace-nowrap text-soft">
        <Time at={createdAt} />
      </td>
      <td className="text-right">
        {!current && (
          <Button kind="quiet" isBusy={isBusy} onClick={() => void run()} aria-label={`End the session of ${device}`}>
            End
          </Button>
        )}
      </td>
    </tr>
  )
}
