import { useState } from 'react'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField } from '../../parts/field.tsx'
import { VersionList } from './version/version-list.tsx'

type HistoryDrawerProps = {
  readonly ws: string
  readonly prj: string
  /** Name or id of the secret; its name is shown. */
  readonly secretKey: string
  readonly environments: readonly { readonly id: string; readonly name: string }[]
  readonly environmentId: string
  readonly onClose: () => void
  readonly canWriteIn: (environmentId: string) => boolean
  readonly onRestored?: () => void
}

/** Versions of one value, in one environment at a time. It is open as long as it is mounted. */
export function HistoryDrawer({ ws, prj, secretKey, environments, onClose, ...rest }: HistoryDrawerProps) {
  const [environmentId, setEnvironmentId] = useState(rest.environmentId)
  const environment = environments.find(({ id }) => id === environmentId) ?? environments[0]
  return (
    <Dialog title={`History of ${secretKey}`} kind="drawer" isOpen onClose={onClose}>
      <SelectField label="Environment" value={environmentId} onChange={(event) => setEnvironmentId(event.target.value)}>
        {environments.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      {environment && (
        <VersionList
          key={environment.id}
          place={{ ws, prj }}
          secretKey={secretKey}
          environment={environment}
          canWrite={rest.canWriteIn(environment.id)}
          {...(rest.onRestored && { onRestored: rest.onRestored })}
        />
      )}
    </Dialog>
  )
}
