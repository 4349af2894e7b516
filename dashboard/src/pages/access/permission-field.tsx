import type { Permission } from '@coffer/sdk'
import { useId } from 'react'
import './grant/role-field.css'

type PermissionFieldProps = {
  readonly value: Permission
  readonly canWrite: boolean
  /** Who may write in some parts of the scope only. */
  readonly limit?: string | undefined
  readonly onChange: (permission: Permission) => void
}

export function PermissionField({ value, canWrite, limit, onChange }: PermissionFieldProps) {
  const id = useId()
  return (
    <fieldset className="role-field">
      <legend>Permission</legend>
      <label className="check">
        <input type="radio" name={id} checked={value === 'read'} onChange={() => onChange('read')} />
        <span>
          Read
          <span className="hint">Enough for applications and deployments.</span>
        </span>
      </label>
      {canWrite && (
        <label className="check">
          <input type="radio" name={id} checked={value === 'read-write'} onChange={() => onChange('read-write')} />
          <span>
            Read and write
            <span className="hint">Also changes secrets in its scope{limit && `, where ${limit} may`}.</span>
          </span>
        </label>
      )}
    </fieldset>
  )
}

export const permissionName = (permission: Permission) => (permission === 'read' ? 'read' : 'read and write')
