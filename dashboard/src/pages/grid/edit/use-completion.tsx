import { type KeyboardEvent, type ReactNode, useId, useState } from 'react'
import type { GridEnvironment, GridRow } from '../cells.ts'
import { type Completion, complete, insertName } from './completion.ts'

/** What a value can refer to. */
export type Names = {
  readonly rows: readonly GridRow[]
  readonly environments: readonly GridEnvironment[]
  readonly own: { readonly name: string; readonly environmentId: string }
}

type Completing = {
  /** Call after every change of the text. */
  look(text: string, caret: number): void
  /** True if the key was for the list. */
  press(event: KeyboardEvent<HTMLInputElement | HTMLTextAreaElement>): boolean
  close(): void
  readonly attributes: object
  readonly list: ReactNode
}

/** Typing `${` offers names to refer to. `put` writes the text with the chosen name. */
export function useCompletion(names: Names, read: () => Caret, put: (next: Caret) => void): Completing {
  const id = useId()
  const [completion, setCompletion] = useState<Completion>()
  const [chosen, setChosen] = useState(0)

  function look(text: string, caret: number): void {
    setCompletion(complete(text, caret, names.rows, names.environments, names.own))
    setChosen(0)
  }

  function accept(name: string): void {
    if (!completion) return
    const { text, caret } = read()
    const next = insertName(text, caret, completion, name)
    put(next)
    look(next.text, next.caret)
  }

  function press(event: KeyboardEvent<HTMLInputElement | HTMLTextAreaElement>): boolean {
    if (!completion) return false
    const { length } = completion.names
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) setChosen((chosen + step + length) % length)
    else if (event.key === 'Enter' || event.key === 'Tab') accept(completion.names[chosen] ?? '')
    else if (event.key === 'Escape') setCompletion(undefined)
    else return false
    event.preventDefault()
    event.stopPropagation()
    return true
  }

  const list = completion && (
    <div id={id} role="listbox" aria-label="Names to refer to" className="completion" tabIndex={-1}>
      {completion.names.map((name, index) => (
        // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the text
        <div
          key={name}
          id={`${id}-${index}`}
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
  )
  const attributes = {
    'aria-autocomplete': 'list',
    'aria-controls': completion ? id : undefined,
    'aria-activedescendant': completion ? `${id}-${chosen}` : undefined,
  }
  return { look, press, close: () => setCompletion(undefined), attributes, list }
}

type Caret = { readonly text: string; readonly caret: number }
