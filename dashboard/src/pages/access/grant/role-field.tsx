import type { Role } from '@coffer/sdk'
import { useId } from 'react'
import './role-field.css'

const roles: readonly { readonly role: Role; readonly name: string; readonly may: string }[] = [
  { role: 'member', name: 'Member', may: 'Reads secrets, keeps personal values, and creates read-only tokens.' },
  { role: 'developer', name: 'Developer', may: 'Also writes secrets, shares them, and creates read-write tokens.' },
  {
    role: 'admin',
    name: 'Admin',
    may: 'Also manages projects, environments and syncs. With everything in scope: members, tokens, identities, settings and the audit log too.',
  },
]

export const roleName = (role: Role) => roles.find((one) => one.role === role)?.name ?? role

export function RoleField({ value, onChange }: { readonly value: Role; readonly onChange: (role: Role) => void }) {
  const id = useId()
  return (
    <fieldset className="role-field">
      <legend>Role</legend>
      {roles.map(({ role, name, may }) => (
        <label key={role} className="check">
          <input type="radio" name={id} checked={value === role} onChange={() => onChange(role)} />
          <span>
            {name}
            <span className="hint">{may}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
