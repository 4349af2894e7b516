import { type DiffLine, diffLines } from './line-diff.ts'
import './value-text.css'

/** A value that is shown. Line breaks and spaces are kept; an empty one says so. */
export function ValueText({ value, label }: { readonly value: string; readonly label: string }) {
  if (value === '') return <span className="text-faint">empty</span>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="value-text" tabIndex={0} aria-label={label}>
      <pre>{value}</pre>
    </section>
  )
}

const signs: Readonly<Record<DiffLine['kind'], string>> = { same: ' ', removed: '−', added: '+' }
const words: Readonly<Record<DiffLine['kind'], string>> = { same: '', removed: 'removed: ', added: 'added: ' }

type ValueDiffProps = { readonly before: string; readonly after: string; readonly label: string }

export function ValueDiff({ before, after, label }: ValueDiffProps) {
  if (before === after) return <p className="text-soft">Both are the same.</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="value-text" tabIndex={0} aria-label={label}>
      <pre>
        {diffLines(before, after).map(({ kind, text }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines never move
          <span key={index} className={`diff-line ${kind}`}>
            <span className="sr-only">{words[kind]}</span>
            <span aria-hidden="true">{signs[kind]} </span>
            {text}
            {'\n'}
          </span>
        ))}
      </pre>
    </section>
  )
}
