import { type KeyboardEvent, useLayoutEffect, useRef, useState } from 'react'
import type { GridRow } from '../cells.ts'
import type { GridActions, GridView } from '../grid-state.ts'
import { warnOfName } from '../no-variable.tsx'
import { checkName } from './name-rule.ts'

type RenameProps = {
  readonly row: GridRow
  readonly name: string
  readonly view: GridView
  readonly actions: GridActions
}

/** The name in its cell. A name that the service would refuse is not kept. */
export function RenameEditor({ row, name, view, actions }: RenameProps) {
  const input = useRef<HTMLInputElement>(null)
  const isOver = useRef(false)
  const [text, setText] = useState(name)
  useLayoutEffect(() => input.current?.select(), [])
  const isBack = text === row.name && !isTaken(text, row, view)
  const problem = isBack ? undefined : checkName(text, (other) => isTaken(other, row, view))

  const warning = isBack ? undefined : warnOfName(text)

  function end(to: string | undefined, move?: 0): void {
    if (isOver.current) return
    isOver.current = true
    actions.endRename(row, to, move)
  }

  function press(event: KeyboardEvent<HTMLInputElement>): void {
    event.stopPropagation()
    if (event.key === 'Escape') end(undefined, 0)
    else if (event.key === 'Enter' && problem === undefined) end(text, 0)
    else if (event.key !== 'Enter') return
    event.preventDefault()
  }

  return (
    <>
      <input
        ref={input}
        className="editor"
        aria-label={problem === undefined ? `New name of ${row.name}` : `New name of ${row.name}. ${problem}`}
        aria-invalid={problem !== undefined || undefined}
        title={problem ?? warning}
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={press}
        onBlur={() => end(problem === undefined ? text : undefined)}
      />
      <span className="sr-only" role="status">
        {problem ?? warning}
      </span>
    </>
  )
}

/** Names of new secrets and new names of others count too. */
export function isTaken(name: string, row: Pick<GridRow, 'id'> | undefined, { index, edits }: GridView): boolean {
  const stored = index.rowsByName.get(name)
  if (stored && stored.id !== row?.id && !edits.names.has(stored.id)) return true
  return (
    edits.fresh.values().some((one) => one.id !== row?.id && one.name === name) ||
    edits.names.entries().some(([id, to]) => id !== row?.id && to === name)
  )
}
