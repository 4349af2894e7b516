/** Whether the session has ended while the page is open. Unsaved edits stay in memory until the person signs in again. */
import { useSyncExternalStore } from 'react'

let hasEnded = false
const listeners = new Set<() => void>()

function change(ended: boolean): void {
  if (hasEnded === ended) return
  hasEnded = ended
  for (const listener of listeners) listener()
}

export const reportSessionEnd = () => change(true)
export const reportSessionStart = () => change(false)

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const useSessionEnded = () => useSyncExternalStore(subscribe, () => hasEnded)
