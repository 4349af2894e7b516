/** Frames of a page: header with tabs and one primary action, sections, empty states, placeholders while loading. */
import type { ReactNode } from 'react'
import './page.css'

type PageProps = {
  readonly title: string
  readonly tabs?: ReactNode
  /** The page's one primary action, and others before it. */
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** A full page fills the window and scrolls inside itself, like the grid. */
  readonly isFull?: boolean
}

export function Page({ title, tabs, actions, children, isFull = false }: PageProps) {
  return (
    <>
      <title>{`${title} · Coffer`}</title>
      <header className="page-head">
        <h1>{title}</h1>
        {tabs ?? <span className="flex-1" />}
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      <div className={isFull ? 'page-body full' : 'page-body'}>{children}</div>
    </>
  )
}

type SectionProps = {
  readonly title: string
  readonly hint?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export function Section({ title, hint, actions, children }: SectionProps) {
  return (
    <section className="section">
      <div className="section-head">
        <div>
          <h2>{title}</h2>
          {hint && <p className="hint">{hint}</p>}
        </div>
        {actions}
      </div>
      {children}
    </section>
  )
}

type EmptyProps = { readonly title: string; readonly children?: ReactNode; readonly action?: ReactNode }

/** Says what would be here and offers the one step that brings it. */
export function EmptyState({ title, children, action }: EmptyProps) {
  return (
    <div className="empty-state">
      <h2>{title}</h2>
      {children && <div className="text-soft">{children}</div>}
      {action}
    </div>
  )
}

/** Keeps the layout while data arrives. */
export function Skeleton({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div className="skeleton" aria-busy="true">
      <span className="sr-only">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike
        <div key={index} />
      ))}
    </div>
  )
}
