import { type ClipboardEvent, type KeyboardEvent, type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { createPortal } from 'react-dom'
import type { Editing, GridActions } from '../grid-state.ts'
import { useOpenText } from './open-text.ts'
import { type Names, useCompletion } from './use-completion.tsx'
import './value-field.css'

type InlineProps = {
  readonly editing: Editing
  readonly label: string
  readonly names: Names
  readonly actions: GridActions
}

/** One line in the cell. Enter and leaving keep the text, Escape takes it back; several lines go to the side editor. */
export function InlineEditor({ editing, label, names, actions }: InlineProps) {
  const input = useRef<HTMLInputElement>(null)
  const [isChanged, setChanged] = useState(false)
  useOpenText(isChanged)
  const completion = useCompletion(
    names,
    () => ({ text: input.current?.value ?? '', caret: input.current?.selectionStart ?? 0 }),
    ({ text, caret }) => {
      if (!input.current) return
      input.current.value = text
      input.current.setSelectionRange(caret, caret)
    },
  )
  const isOver = useRef(false)
  // With the render that shows it: a key in between would be a command of the cell.
  useLayoutEffect(() => input.current?.focus(), [])

  function end(text?: string, move?: -1 | 0 | 1): void {
    if (isOver.current) return
    isOver.current = true
    actions.endEdit(text, move)
  }

  function press(event: KeyboardEvent<HTMLInputElement>): void {
    event.stopPropagation()
    if (completion.press(event)) return
    const { value } = event.currentTarget
    if (event.key === 'Enter' && event.altKey) {
      isOver.current = true
      actions.openEditor(`${value}\n`)
    } else if (event.key === 'Enter') end(value, 0)
    else if (event.key === 'Tab') end(value, event.shiftKey ? -1 : 1)
    else if (event.key === 'Escape') end(undefined, 0)
    else return
    event.preventDefault()
  }

  function paste(event: ClipboardEvent<HTMLInputElement>): void {
    event.stopPropagation()
    const text = event.clipboardData.getData('text/plain')
    if (!/[\r\n]/.test(text.trimEnd())) return
    event.preventDefault()
    const { value, selectionStart, selectionEnd } = event.currentTarget
    isOver.current = true
    actions.openEditor(value.slice(0, selectionStart ?? 0) + text + value.slice(selectionEnd ?? value.length))
  }

  return (
    <>
      <input
        ref={input}
        className="editor"
        aria-label={label}
        autoComplete="off"
        spellCheck={false}
        defaultValue={editing.text}
        {...completion.attributes}
        onChange={({ target }) => {
          setChanged(target.value !== editing.text)
          completion.look(target.value, target.selectionStart ?? 0)
        }}
        onKeyDown={press}
        onPaste={paste}
        onBlur={(event) => end(event.currentTarget.value)}
      />
      {completion.list && <Below anchor={input.current}>{completion.list}</Below>}
    </>
  )
}

/** Room that a list of names needs below its cell; with less it opens above. */
const listHeight = 240

/** Cells cut off what does not fit into them: the list is placed over the page. */
function Below({ anchor, children }: { readonly anchor: HTMLElement | null; readonly children: ReactNode }) {
  if (!anchor) return null
  const { left, top, bottom } = anchor.getBoundingClientRect()
  const place = bottom + listHeight < innerHeight ? { top: bottom } : { bottom: innerHeight - top }
  return createPortal(
    <div className="completion-below" style={{ left, ...place }}>
      {children}
    </div>,
    document.body,
  )
}
