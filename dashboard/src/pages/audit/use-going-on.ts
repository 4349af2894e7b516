import { useEffect, useSyncExternalStore } from 'react'

/** Leaves most of the rate limit of a minute to other pages. */
const pauseMs = 500

const onVisibility = (changed: () => void) => {
  document.addEventListener('visibilitychange', changed)
  return () => document.removeEventListener('visibilitychange', changed)
}
const isLookedAt = () => document.visibilityState === 'visible'

/** Loads page after page while `isLooking`, as long as the page is looked at. */
export function useGoingOn(isLooking: boolean, loadNext: () => void): void {
  const isVisible = useSyncExternalStore(onVisibility, isLookedAt)
  useEffect(() => {
    if (!isLooking || !isVisible) return
    const timer = setTimeout(loadNext, pauseMs)
    return () => clearTimeout(timer)
  }, [isLooking, isVisible, loadNext])
}
