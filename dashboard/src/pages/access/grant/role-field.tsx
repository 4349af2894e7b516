import type { Role } from '@coffer/sdk'
import { useId } from 'react'
import './role-field.css'

/** Who gets the role: a machine keeps no personal values, and creates no tokens. */
export type Holder = 'person' | 'machine'

type RoleText = { readonly role: Role; readonly name: string } & Readonly<Record<Holder, string>>

const managed =
  'With everything in scope: members, service accounts, tokens, identities, settings and the audit log too.'

const roles: readonly RoleText[] = [
  {
    role: 'member',
    name: 'Member',
    person: 'Reads secrets, keeps personal values, and creates read-only tokens.',
    machine: 'Reads secrets. Enough for applications and deployments.',
  },
  {
    role: 'developer',
    name: 'Developer',
    person: 'Also writes secrets, shares them, and creates read-write tokens.',
    machine: 'Also writes secrets, and shares them.',
  },
  {
    role: 'admin',
    name: 'Admin',
    person: `Also manages projects, environments and syncs. ${managed}`,
    machine: `Also manages projects and environments. ${managed}`,
  },
]

export const roleName = (role: Role) => roles.find((one) => one.role === role)?.name ?? role

type RoleFieldProps = {
  readonly holder: Holder
  readonly value: Role
  readonly onChange: (role: Role) => void
}

export function RoleField({ holder, value, onChange }: RoleFieldProps) {
  const id = useId()
  return (
    <fieldset className="role-field">
      <legend>Role</legend>
      {roles.map((text) => (
        <label key={text.role} className="check">
          <input type="radio" name={id} checked={value === text.role} onChange={() => onChange(text.role)} />
          <span>
            {text.name}
            <span className="hint">{text[holder]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
