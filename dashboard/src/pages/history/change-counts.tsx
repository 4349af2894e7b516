import type { Revision } from '@coffer/sdk'
import { plural } from '../../parts/plural.ts'
import './change-counts.css'

type Action = Revision['changes'][number]['action']

const signs = [
  ['created', '+'],
  ['updated', '~'],
  ['deleted', '−'],
  ['renamed', '→'],
] as const satisfies readonly (readonly [Action, string])[]

/** `+2 ~1 −3`; screen readers hear "2 keys created". */
export function ChangeCounts({ changes }: { readonly changes: Revision['changes'] }) {
  const counts = Map.groupBy(changes, ({ action }) => action)
  const first = changes[0]
  return (
    <span className="change-counts">
      {signs.map(([action, sign]) => {
        const count = counts.get(action)?.length ?? 0
        if (count === 0) return null
        const text = `${plural(count, 'key')} ${action}`
        return (
          <span key={action} className={action} title={text}>
            <span aria-hidden="true">{`${sign}${count}`}</span>
            <span className="sr-only">{text}</span>
          </span>
        )
      })}
      {changes.length === 1 && first && <code className="truncate">{first.key}</code>}
    </span>
  )
}
