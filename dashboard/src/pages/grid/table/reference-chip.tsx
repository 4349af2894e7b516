import { Link, useParams } from '@tanstack/react-router'
import type { Reference } from '../cells.ts'
import type { GridActions } from '../grid-state.ts'

type ChipProps = {
  readonly name: string
  readonly reference: Reference
  /** Chips of the active cell are reached by Tab. */
  readonly isReachable: boolean
  readonly actions: GridActions
}

/** Leads to the value that is referred to. */
export function ReferenceChip({ name, reference, isReachable, actions }: ChipProps) {
  const { ws } = useParams({ from: '/signed-in/$ws' })
  const text = `\${${name}}`
  const tabIndex = isReachable ? 0 : -1
  if (reference.kind === 'unresolved') return <i className="unresolved">{text}</i>
  if (reference.kind === 'elsewhere') {
    const { project: prj, key, environment } = reference
    return (
      <Link to="/$ws/$prj" params={{ ws, prj }} search={{ key, environment }} className="reference" tabIndex={tabIndex}>
        {text}
      </Link>
    )
  }
  return (
    <button type="button" className="reference" tabIndex={tabIndex} onClick={() => actions.goTo(reference.target)}>
      {text}
    </button>
  )
}
