import type { ReactNode } from 'react'
import './table.css'

type TableProps = { readonly label: string; readonly columns: readonly ReactNode[]; readonly children: ReactNode }

/** Rows are `<tr>` with `<td>`; the first cell of a row may be a `<th scope="row">`. An empty column title is for actions. */
export function Table({ label, columns, children }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="table-frame" aria-label={label} tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            {columns.map((title, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns never move
              <th key={index} scope="col">
                {title || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  )
}
