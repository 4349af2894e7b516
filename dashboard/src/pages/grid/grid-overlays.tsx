import { refreshProject } from '../../api/refresh.ts'
import { trashSecret } from '../../api/secret.ts'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { say } from '../../parts/toast.tsx'
import { NewSecretDialog } from './edit/new-secret.tsx'
import { ReviewDialog } from './edit/review-dialog.tsx'
import { SideEditor } from './edit/side-editor.tsx'
import type { GridWorkspaceProps } from './grid-state.ts'
import { HistoryDrawer } from './history-drawer.tsx'
import { ImportDialog } from './import-dialog.tsx'
import { KeyHelp } from './key-help.tsx'
import { UseInAppDialog } from './use-dialog.tsx'
import type { Grid } from './use-grid.ts'

type OverlaysProps = Pick<GridWorkspaceProps, 'ws' | 'prj' | 'environments'> & {
  readonly grid: Grid
}

/** Dialogs and drawers on top of the grid; one at a time. */
export function GridOverlays({ ws, prj, environments, grid }: OverlaysProps) {
  const { overlay, rowsById } = grid
  const { canWriteIn } = grid.view
  const writable = environments.filter(({ id }) => canWriteIn(id))
  // A cell that opened an overlay has the focus again after it.
  const close = () => grid.setOverlay(undefined)
  switch (overlay?.kind) {
    case 'new':
      return <NewSecretDialog environments={writable} grid={grid} onClose={close} />
    case 'review':
      return <ReviewDialog ws={ws} prj={prj} environments={environments} grid={grid} onClose={close} />
    case 'keys':
      return <KeyHelp onClose={close} />
    case 'use':
      return <UseInAppDialog ws={ws} prj={prj} environments={environments} isOpen onClose={close} />
    case 'import':
      return (
        <ImportDialog
          ws={ws}
          prj={prj}
          isOpen
          onClose={close}
          {...(overlay.text !== undefined && { initialText: overlay.text })}
        />
      )
    case 'history':
      return (
        <HistoryDrawer
          ws={ws}
          prj={prj}
          secretKey={overlay.row.name}
          environments={environments}
          environmentId={overlay.environmentId ?? environments[0]?.id ?? ''}
          canWriteIn={canWriteIn}
          onClose={close}
        />
      )
    case 'value': {
      const { editing, isTyped = false } = overlay
      const row = rowsById.get(editing.secretId)
      const environment = environments.find(({ id }) => id === editing.environmentId)
      if (!row || !environment) return null
      return <SideEditor {...{ ws, prj, grid, row, environment, environments, editing, isTyped }} onClose={close} />
    }
    case 'reveal-column': {
      const { environment } = overlay
      return (
        <ConfirmDialog
          title={`Reveal all values of ${environment.name}?`}
          isOpen
          onClose={close}
          action="Reveal column"
          kind="primary"
          onConfirm={() => grid.revealColumn(environment)}
        >
          <p>All values of this column are shown for 30 seconds. This is recorded in the audit log.</p>
        </ConfirmDialog>
      )
    }
    case 'trash': {
      const { row } = overlay
      const trash = async () => {
        await trashSecret(ws, prj, row.id)
        grid.dispatch({ type: 'drop-secret', secretId: row.id })
        say(`${row.name} is in the trash. It can be restored for 30 days.`)
        await refreshProject(ws, prj)
      }
      return (
        <ConfirmDialog
          title={`Delete ${row.name} everywhere?`}
          isOpen
          onClose={close}
          action={`Delete ${row.name}`}
          onConfirm={trash}
        >
          <p>
            It is removed from all environments at once, and applications that need it fail at their next read. It stays
            in the trash for 30 days.
          </p>
        </ConfirmDialog>
      )
    }
    default:
      return null
  }
}
