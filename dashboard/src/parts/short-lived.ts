/** Values of secrets in memory. They are dropped when they are hidden, after 30 seconds, and in a tab that nobody looks at. */
import { useEffect, useState } from 'react'

const shownMs = 30_000
const hiddenTabMs = 60_000

/** Like `useState` for values that are shown: each one set lives for 30 seconds, and not longer than the component. */
export function useShortLived<T>(): readonly [value: T | undefined, set: (value: T | undefined) => void] {
  const [held, setHeld] = useState<{ readonly value: T }>()
  useEffect(() => {
    if (!held) return
    const drop = () => setHeld(undefined)
    const timer = setTimeout(drop, shownMs)
    const stopWatching = onTabHidden(drop)
    return () => {
      clearTimeout(timer)
      stopWatching()
    }
  }, [held])
  return [held?.value, (value) => setHeld(value === undefined ? undefined : { value })]
}

/** Calls back once the tab has been hidden for a minute. */
function onTabHidden(drop: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  const look = () => {
    clearTimeout(timer)
    timer = document.hidden ? setTimeout(drop, hiddenTabMs) : undefined
  }
  document.addEventListener('visibilitychange', look)
  look()
  return () => {
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', look)
  }
}
