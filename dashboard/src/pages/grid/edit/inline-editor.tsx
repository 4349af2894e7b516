import { type ClipboardEvent, type KeyboardEvent, useEffect, useRef } from 'react'
import type { Editing, GridActions } from '../grid-state.ts'

type InlineProps = { readonly editing: Editing; readonly label: string; readonly actions: GridActions }

/** One line in the cell. Enter and leaving keep the text, Escape takes it back; several lines go to the side editor. */
export function InlineEditor({ editing, label, actions }: InlineProps) {
  const input = useRef<HTMLInputElement>(null)
  const isOver = useRef(false)
  useEffect(() => input.current?.focus(), [])

  function end(text?: string, move?: -1 | 0 | 1): void {
    if (isOver.current) return
    isOver.current = true
    actions.endEdit(text, move)
  }

  function press(event: KeyboardEvent<HTMLInputElement>): void {
    event.stopPropagation()
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
    <input
      ref={input}
      className="editor"
      aria-label={label}
      autoComplete="off"
      spellCheck={false}
      defaultValue={editing.text}
      onKeyDown={press}
      onPaste={paste}
      onBlur={(event) => end(event.currentTarget.value)}
    />
  )
}
