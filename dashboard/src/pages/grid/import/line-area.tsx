import { type UIEvent, useEffect, useId, useRef, useState } from 'react'
import './line-area.css'

type LineAreaProps = {
  readonly label: string
  readonly text: string
  readonly onChange: (text: string) => void
  readonly problem: { readonly line: number; readonly problem: string } | undefined
}

/** Must be the line height in line-area.css. */
const linePx = 18

/** A text area with line numbers. A problem is marked at its line, which is scrolled into view and selected. */
export function LineArea({ label, text, onChange, problem }: LineAreaProps) {
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const [scrollTop, setScrollTop] = useState(0)

  // biome-ignore lint/correctness/useExhaustiveDependencies: the person may edit the text while the problem is shown
  useEffect(() => {
    const element = area.current
    if (!problem || !element) return
    const [start, end] = placeOfLine(text, problem.line)
    element.focus()
    element.setSelectionRange(start, end)
    element.scrollTop = (problem.line - 4) * linePx
  }, [problem])

  const lineCount = text.split('\n').length
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <div className="line-area" data-invalid={problem ? true : undefined}>
        <div className="line-numbers" aria-hidden="true">
          <pre style={{ translate: `0 ${-scrollTop}px` }}>{numbersUpTo(lineCount)}</pre>
          {problem && <i style={{ top: (problem.line - 1) * linePx - scrollTop }}>{problem.line}</i>}
        </div>
        <textarea
          ref={area}
          id={id}
          value={text}
          onChange={(event) => onChange(event.target.value)}
          onScroll={(event: UIEvent<HTMLTextAreaElement>) => setScrollTop(event.currentTarget.scrollTop)}
          rows={12}
          wrap="off"
          autoComplete="off"
          spellCheck={false}
          placeholder={'DATABASE_URL=postgres://…\nAPI_KEY=…'}
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? `${id}-error` : undefined}
        />
      </div>
      {problem && (
        <p id={`${id}-error`} className="error" role="alert">
          {`Line ${problem.line}: ${problem.problem}`}
        </p>
      )}
    </div>
  )
}

function numbersUpTo(count: number): string {
  return Array.from({ length: count }, (_, index) => index + 1).join('\n')
}

function placeOfLine(text: string, line: number): readonly [start: number, end: number] {
  let start = 0
  for (let before = 1; before < line; before += 1) {
    const end = text.indexOf('\n', start)
    if (end < 0) break
    start = end + 1
  }
  const end = text.indexOf('\n', start)
  return [start, end < 0 ? text.length : end]
}
