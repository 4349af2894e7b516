import { type KeyboardEvent, useId, useLayoutEffect, useRef, useState } from 'react'
import { TextAreaField } from '../../../parts/field.tsx'
import type { GridEnvironment, GridRow } from '../cells.ts'
import { type Completion, complete, insertName } from './completion.ts'
import './value-field.css'

type ValueProps = {
  readonly label: string
  readonly text: string
  readonly error: string | undefined
  readonly onText: (text: string) => void
  readonly rows: readonly GridRow[]
  readonly environments: readonly GridEnvironment[]
  readonly own: { readonly name: string; readonly environmentId: string }
}

/** A value of any number of lines. Typing `${` offers names to refer to. */
export function ValueField({ label, text: stored, error, onText, rows, environments, own }: ValueProps) {
  // Text areas know only \n: a value with the line ends of Windows gets them back.
  const [isWindows] = useState(() => /\r\n/.test(stored) && !/(?<!\r)\n/.test(stored))
  const text = stored.replace(/\r\n?/g, '\n')
  const list = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const nextCaret = useRef<number>(undefined)
  const [completion, setCompletion] = useState<Completion>()
  const [chosen, setChosen] = useState(0)

  useLayoutEffect(() => {
    if (nextCaret.current === undefined) return
    area.current?.setSelectionRange(nextCaret.current, nextCaret.current)
    nextCaret.current = undefined
  })

  function change(next: string, caret: number): void {
    onText(isWindows ? next.replaceAll('\n', '\r\n') : next)
    setCompletion(complete(next, caret, rows, environments, own))
    setChosen(0)
  }

  function accept(name: string): void {
    if (!completion) return
    const next = insertName(text, area.current?.selectionStart ?? text.length, completion, name)
    nextCaret.current = next.caret
    change(next.text, next.caret)
    area.current?.focus()
  }

  function press(event: KeyboardEvent): void {
    if (!completion) return
    const { names } = completion
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) setChosen((chosen + step + names.length) % names.length)
    else if (event.key === 'Enter' || event.key === 'Tab') accept(names[chosen] ?? '')
    else if (event.key === 'Escape') setCompletion(undefined)
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  return (
    <div className="value-field">
      <TextAreaField
        ref={area}
        label={label}
        error={error}
        rows={Math.min(18, Math.max(4, text.split('\n').length + 1))}
        value={text}
        aria-autocomplete="list"
        aria-controls={completion ? list : undefined}
        aria-activedescendant={completion ? `${list}-${chosen}` : undefined}
        onChange={(event) => change(event.target.value, event.target.selectionStart)}
        onKeyDown={press}
        onBlur={() => setCompletion(undefined)}
      />
      {completion && (
        <div id={list} role="listbox" aria-label="Names to refer to" className="completion" tabIndex={-1}>
          {completion.names.map((name, index) => (
            // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the text
            <div
              key={name}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              onPointerDown={(event) => {
                event.preventDefault()
                accept(name)
              }}
            >
              {name}
            </div>
          ))}
        </div>
      )}
    </div>
  )
}
