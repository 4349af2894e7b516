import type { WriteResult } from '@coffer/sdk'
import { plural } from '../../parts/plural.ts'
import './plan-list.css'

type Status = WriteResult['status']

const lines = [
  ['created', '+', 'created'],
  ['updated', '~', 'changed'],
  ['renamed', '→', 'renamed'],
  ['deleted', '−', 'deleted'],
  ['skipped', '', 'there already, and kept'],
  ['unchanged', '', 'the same already'],
] as const satisfies readonly (readonly [Status, string, string])[]

/** How many names are shown before the rest is folded away. */
const shownNames = 12

type PlanListProps = { readonly results: readonly Pick<WriteResult, 'key' | 'status'>[] }

/** Names that a change would touch, by what would happen to them. Never holds a value. */
export function PlanList({ results }: PlanListProps) {
  const byStatus = Map.groupBy(results, ({ status }) => status)
  if (results.length === 0) return <p className="text-soft">Nothing would change.</p>
  return (
    <ul className="plan">
      {lines.map(([status, sign, text]) => {
        const names = byStatus.get(status)?.map(({ key }) => key)
        return names ? <PlanLine key={status} status={status} sign={sign} text={text} names={names} /> : null
      })}
    </ul>
  )
}

type PlanLineProps = {
  readonly status: Status
  readonly sign: string
  readonly text: string
  readonly names: readonly string[]
}

function PlanLine({ status, sign, text, names }: PlanLineProps) {
  const [first, rest] = [names.slice(0, shownNames), names.slice(shownNames)]
  return (
    <li className={`plan-line ${status}`}>
      <span className="plan-sign" aria-hidden="true">
        {sign}
      </span>
      <div>
        <b>{`${plural(names.length, 'key')} ${text}`}</b>
        <p className="plan-names">{first.join('  ')}</p>
        {rest.length > 0 && (
          <details>
            <summary>{`${rest.length} more`}</summary>
            <p className="plan-names">{rest.join('  ')}</p>
          </details>
        )}
      </div>
    </li>
  )
}

export const isChange = ({ status }: Pick<WriteResult, 'status'>) => status !== 'unchanged' && status !== 'skipped'
