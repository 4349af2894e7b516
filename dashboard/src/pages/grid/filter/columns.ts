/** Order and visibility of the columns, kept in this browser for each project. Environments are kept by id. */
import { useState } from 'react'
import type { GridEnvironment } from '../cells.ts'

type Layout = { readonly order: readonly string[]; readonly hidden: readonly string[] }

const none: Layout = { order: [], hidden: [] }
const storageKey = (projectId: string) => `coffer-columns-${projectId}`

function readLayout(projectId: string): Layout {
  try {
    const { order, hidden } = JSON.parse(localStorage.getItem(storageKey(projectId)) ?? '{}')
    return { order: texts(order), hidden: texts(hidden) }
  } catch {
    return none
  }
}

const texts = (list: unknown): string[] => (Array.isArray(list) ? list.filter((one) => typeof one === 'string') : [])

/** Environments that the layout does not know come last, in the order of the project. */
function orderColumns(environments: readonly GridEnvironment[], { order }: Layout): readonly GridEnvironment[] {
  const place = new Map(order.map((id, index) => [id, index]))
  const rank = ({ id }: GridEnvironment) => place.get(id) ?? order.length
  return environments.toSorted((one, other) => rank(one) - rank(other))
}

export type Columns = {
  readonly all: readonly GridEnvironment[]
  readonly shown: readonly GridEnvironment[]
  toggle(id: string): void
  /** By one place among the shown columns. */
  move(id: string, step: -1 | 1): void
}

export function useColumns(projectId: string, environments: readonly GridEnvironment[]): Columns {
  const [layout, setLayout] = useState(() => readLayout(projectId))
  const all = orderColumns(environments, layout)
  const visible = all.filter(({ id }) => !layout.hidden.includes(id))
  // A grid without columns would look like a project without environments.
  const shown = visible.length > 0 ? visible : all

  function keep(next: Layout): void {
    localStorage.setItem(storageKey(projectId), JSON.stringify(next))
    setLayout(next)
  }

  return {
    all,
    shown,
    toggle(id) {
      const shownIds = shown.map((one) => one.id)
      const hidden = shownIds.includes(id)
        ? all.filter((one) => one.id === id || !shownIds.includes(one.id)).map((one) => one.id)
        : layout.hidden.filter((one) => one !== id)
      keep({ ...layout, hidden })
    },
    move(id, step) {
      const ids = shown.map((one) => one.id)
      const neighbour = ids[ids.indexOf(id) + step]
      if (neighbour === undefined) return
      const order = all.map((one) => (one.id === id ? neighbour : one.id === neighbour ? id : one.id))
      keep({ ...layout, order })
    },
  }
}
