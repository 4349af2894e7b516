import type { ShutOut } from '@coffer/sdk'
import { plural } from '../../../parts/plural.ts'
import { actorKind } from '../../access/who/actor-kind.ts'

/** More names are counted: the list of a large workspace is long. */
const shownNames = 100

/** Everybody who would not meet a policy, by name, and why. */
export function ShutOutList({ shutOut }: { readonly shutOut: readonly ShutOut[] }) {
  if (shutOut.length === 0) return <p role="status">Nobody would be shut out.</p>
  return (
    <section className="flex flex-col gap-2" aria-label="Shut out">
      <p role="status">
        <b>{plural(shutOut.length, 'person or machine', 'people and machines')} would be shut out:</b>
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keyboard */}
      <ul className="border-line max-h-72 overflow-auto rounded border px-3 py-1" aria-label="Shut out" tabIndex={0}>
        {shutOut.slice(0, shownNames).map(({ type, id, name, reason }) => (
          <li key={`${type} ${id}`} className="border-line py-1 not-last:border-b">
            <b>{name}</b> <span className="text-soft text-s">{actorKind[type]}</span>
            <span className="hint">{reason}</span>
          </li>
        ))}
        {shutOut.length > shownNames && <li className="hint">and {shutOut.length - shownNames} more</li>}
      </ul>
    </section>
  )
}
