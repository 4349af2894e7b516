import { Snippet } from '../../../parts/copy.tsx'
import type { UseSnippet } from '../../grid/snippets.ts'

/** Closed until they are asked for: the first thing on the page is what it is about. */
export function SnippetList({ snippets }: { readonly snippets: readonly UseSnippet[] }) {
  return (
    <div className="snippet-list">
      {snippets.map(({ title, hint, text }) => (
        <details key={title}>
          <summary>{title}</summary>
          <p className="hint">{hint}</p>
          <Snippet label={title} text={text} />
        </details>
      ))}
    </div>
  )
}
