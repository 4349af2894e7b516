/**
 * Values on the screen. They are in memory only, and leave it when they are hidden, after 30 seconds, when the tab was
 * out of sight for a minute, and with the page.
 */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { CellValues } from '../../api/cell-values.ts'

const shownMs = 30_000
const outOfSightMs = 60_000

type Shown = CellValues & { readonly until: number }
export type Shows = ReadonlyMap<string, Shown>

export type Reveals = {
  readonly shown: Shows
  show(values: ReadonlyMap<string, CellValues>): void
  hide(cells: readonly string[]): void
  hideAll(): void
}

const nothing: Shows = new Map()

export const cellKey = (secretId: string, environmentId: string) => `${secretId} ${environmentId}`

export function useReveals(): Reveals {
  const [shown, setShown] = useState<Shows>(nothing)
  const hideAll = useCallback(() => setShown(nothing), [])
  const show = useCallback((values: ReadonlyMap<string, CellValues>) => {
    const until = Date.now() + shownMs
    setShown(
      (before) => new Map([...before, ...[...values].map(([key, value]) => [key, { ...value, until }] as const)]),
    )
  }, [])
  const hide = useCallback((cells: readonly string[]) => {
    setShown((before) => {
      if (!cells.some((key) => before.has(key))) return before
      const left = new Map(before)
      for (const key of cells) left.delete(key)
      return left
    })
  }, [])

  useEffect(() => {
    if (shown.size === 0) return
    const next = Math.min(...shown.values().map(({ until }) => until))
    const timer = setTimeout(
      () => {
        const now = Date.now()
        setShown((before) => new Map([...before].filter(([, { until }]) => until > now)))
      },
      Math.max(0, next - Date.now()),
    )
    return () => clearTimeout(timer)
  }, [shown])

  useHiddenTab(hideAll)
  return useMemo(() => ({ shown, show, hide, hideAll }), [shown, show, hide, hideAll])
}

/** Browsers slow down timers of hidden tabs, so the time is checked again when the tab comes back. */
function useHiddenTab(onLong: () => void): void {
  const since = useRef<number>(undefined)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    function change(): void {
      clearTimeout(timer)
      if (document.visibilityState === 'hidden') {
        since.current = Date.now()
        timer = setTimeout(onLong, outOfSightMs)
      } else if (since.current !== undefined && Date.now() - since.current >= outOfSightMs) onLong()
    }
    document.addEventListener('visibilitychange', change)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', change)
    }
  }, [onLong])
}
