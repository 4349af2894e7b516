import type { TrashedSecret } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { refreshProject } from '../../api/refresh.ts'
import { purgeSecret, restoreSecret, trashQuery } from '../../api/trash.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { ProjectPage } from '../shell/project-page.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/trash')

export function Trash() {
  const { ws, prj } = route.useParams()
  const { readsWhole, writesWhole, administersWhole } = useProjectRights()
  const { data: secrets, error } = useQuery(trashQuery(ws, prj))
  const [purged, setPurged] = useState<TrashedSecret>()
  const restore = useAction(async ({ id, name }: TrashedSecret) => {
    await restoreSecret(ws, prj, id)
    say(`Restored ${name} with the values that it had.`)
    await refreshProject(ws, prj)
  })

  return (
    <ProjectPage>
      <ErrorNote error={error ?? restore.error} />
      {!secrets && !error && <Skeleton />}
      {secrets?.length === 0 && <EmptyTrash isWhole={readsWhole} />}
      {secrets && secrets.length > 0 && (
        <>
          <p className="hint">Deleted secrets are kept for 30 days, then destroyed with every version.</p>
          <Table label="Trash" columns={['Secret', 'Deleted', 'Destroyed', '']}>
            {secrets.map((secret) => (
              <tr key={secret.id}>
                <th scope="row">
                  <span className="font-mono text-s break-all">{secret.name}</span>
                  {secret.note && <span className="hint">{secret.note}</span>}
                </th>
                <td className="whitespace-nowrap">
                  <Time at={secret.deletedAt} />
                </td>
                <td className="whitespace-nowrap">
                  <Time at={secret.purgeAt} />
                </td>
                <td>
                  <div className="flex flex-col justify-end gap-1 py-1 sm:flex-row sm:gap-2 sm:py-0">
                    {writesWhole && (
                      <Button
                        isBusy={restore.isBusy}
                        aria-label={`Restore ${secret.name}`}
                        onClick={() => void restore.run(secret)}
                      >
                        Restore
                      </Button>
                    )}
                    {administersWhole && (
                      <Button
                        kind="danger"
                        aria-label={`Delete for good: ${secret.name}`}
                        onClick={() => setPurged(secret)}
                      >
                        Delete for good
                      </Button>
                    )}
                  </div>
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
      <ConfirmDialog
        title={`Delete ${purged?.name ?? ''} for good`}
        isOpen={purged !== undefined}
        onClose={() => setPurged(undefined)}
        action="Delete for good"
        typed={purged?.name}
        onConfirm={async () => {
          if (!purged) return
          await purgeSecret(ws, prj, purged.id)
          say(`${purged.name} is gone for good.`)
          await refreshProject(ws, prj)
        }}
      >
        <p>Every value and every version of it is destroyed, in all environments. Nobody can bring it back.</p>
      </ConfirmDialog>
    </ProjectPage>
  )
}

function EmptyTrash({ isWhole }: { readonly isWhole: boolean }) {
  return (
    <EmptyState title="The trash is empty">
      <p>A secret that is deleted in all environments stays here for 30 days and can be restored.</p>
      {!isWhole && <p>Only people with access to every environment of the project see its trash.</p>}
    </EmptyState>
  )
}
