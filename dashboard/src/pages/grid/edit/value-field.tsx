import { useLayoutEffect, useRef, useState } from 'react'
import { TextAreaField } from '../../../parts/field.tsx'
import { type Names, useCompletion } from './use-completion.tsx'
import './value-field.css'

type ValueProps = Names & {
  readonly label: string
  readonly text: string
  readonly error: string | undefined
  readonly onText: (text: string) => void
}

/** A value of any number of lines. Typing `${` offers names to refer to. */
export function ValueField({ label, text: stored, error, onText, ...names }: ValueProps) {
  // Text areas know only \n: a value with the line ends of Windows gets them back.
  const [isWindows] = useState(() => /\r\n/.test(stored) && !/(?<!\r)\n/.test(stored))
  const text = stored.replace(/\r\n?/g, '\n')
  const area = useRef<HTMLTextAreaElement>(null)
  const nextCaret = useRef<number>(undefined)
  const write = (next: string) => onText(isWindows ? next.replaceAll('\n', '\r\n') : next)
  const completion = useCompletion(
    names,
    () => ({ text, caret: area.current?.selectionStart ?? text.length }),
    (next) => {
      nextCaret.current = next.caret
      write(next.text)
      area.current?.focus()
    },
  )

  useLayoutEffect(() => {
    if (nextCaret.current === undefined) return
    area.current?.setSelectionRange(nextCaret.current, nextCaret.current)
    nextCaret.current = undefined
  })

  return (
    <div className="value-field">
      <TextAreaField
        ref={area}
        label={label}
        error={error}
        rows={Math.min(18, Math.max(4, text.split('\n').length + 1))}
        value={text}
        {...completion.attributes}
        onChange={({ target }) => {
          write(target.value)
          completion.look(target.value, target.selectionStart)
        }}
        onKeyDown={completion.press}
        onBlur={completion.close}
      />
      {completion.list}
    </div>
  )
}
