/** Chooses grants: one role with one scope for most people, and a list of them for those who need more. */
import type { Grant, Scope, TeamGroup } from '@coffer/sdk'
import { useEffect, useRef, useState } from 'react'
import { Button } from '../../../parts/button.tsx'
import { Icon } from '../../../parts/icon.tsx'
import { nothing } from '../../../parts/scope/scope.ts'
import { ScopeField } from '../../../parts/scope/scope-field.tsx'
import { grantInWords, maxGrants } from './grants.ts'
import { type Holder, RoleField } from './role-field.tsx'
import './grants-field.css'

type GrantsFieldProps = {
  readonly holder: Holder
  readonly teams: readonly TeamGroup[]
  /** The scope of the person who grants: nobody grants more than they have. */
  readonly own: Scope
  readonly value: readonly Grant[]
  readonly onChange: (grants: readonly Grant[]) => void
  readonly error?: string | undefined
}

const newGrant: Grant = { role: 'member', scope: nothing }

export function GrantsField({ holder, teams, own, value, onChange, error }: GrantsFieldProps) {
  const frame = useRef<HTMLDivElement>(null)
  // One grant is open at a time. The round makes the fields of another grant start anew.
  const [{ open, round }, setOpen] = useState({ open: 0, round: 0 })
  const isSingle = value.length === 1
  // The button that was pressed may be gone, or far from what it opened.
  useEffect(() => {
    const target = '.grant-fold[aria-expanded="true"], .grant-fields input:checked'
    if (round > 0) frame.current?.querySelector<HTMLElement>(target)?.focus()
  }, [round])
  const show = (index: number) => setOpen({ open: index, round: round + 1 })
  const change = (part: Partial<Grant>) =>
    onChange(value.map((grant, index) => (index === open ? { ...grant, ...part } : grant)))

  function add(): void {
    onChange([...value, newGrant])
    show(value.length)
  }

  function remove(index: number): void {
    onChange(value.filter((_, other) => other !== index))
    show(Math.max(0, open > index || open === value.length - 1 ? open - 1 : open))
  }

  const fields = (grant: Grant) => (
    <div key={round} className="grant-fields">
      <RoleField holder={holder} value={grant.role} onChange={(role) => change({ role })} />
      <ScopeField teams={teams} own={own} value={grant.scope} error={error} onChange={(scope) => change({ scope })} />
    </div>
  )
  const [first] = value
  return (
    <div ref={frame} className="flex flex-col gap-4">
      {isSingle && first && fields(first)}
      {!isSingle && (
        <>
          <p className="hint">Where several grants meet, the highest role counts.</p>
          <ul className="grants" aria-label="Grants">
            {value.map((grant, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a grant has no name; the fields of the open one have a key of their own
              <li key={index}>
                <div className="grant-head">
                  <button
                    type="button"
                    className="grant-fold"
                    aria-expanded={index === open}
                    onClick={() => show(index === open ? -1 : index)}
                  >
                    <Icon name="chevron" />
                    <span>{grantInWords(grant, teams)}</span>
                  </button>
                  <Button
                    kind="quiet"
                    aria-label={`Remove grant ${index + 1}: ${grantInWords(grant, teams)}`}
                    onClick={() => remove(index)}
                  >
                    <Icon name="close" />
                  </Button>
                </div>
                {index === open && fields(grant)}
              </li>
            ))}
          </ul>
        </>
      )}
      {value.length < maxGrants ? (
        <Button kind="quiet" className="self-start -ml-2" onClick={add}>
          <Icon name="plus" />
          {isSingle ? 'Another role for another part' : 'Another grant'}
        </Button>
      ) : (
        <p className="hint">{maxGrants} grants are the most.</p>
      )}
    </div>
  )
}
