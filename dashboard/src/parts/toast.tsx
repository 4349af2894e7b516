/** Short results of actions, shown for some seconds and announced by screen readers. */
import { useSyncExternalStore } from 'react'
import { sentenceOf } from './error-note.tsx'
import './toast.css'

type Toast = { readonly id: number; readonly text: string; readonly tone: 'plain' | 'bad' }

const shownMs = 6_000
let toasts: readonly Toast[] = []
let nextId = 1
const listeners = new Set<() => void>()

function change(next: readonly Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}

/** `what` is a sentence or an error. Never pass a secret value. */
export function say(what: unknown, tone: Toast['tone'] = 'plain'): void {
  const toast = { id: nextId++, text: typeof what === 'string' ? what : sentenceOf(what), tone }
  // The same sentence again is shown once, and announced again.
  const others = toasts.filter(({ text }) => text !== toast.text)
  change([...others.slice(-2), toast])
  setTimeout(() => change(toasts.filter(({ id }) => id !== toast.id)), shownMs)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, tone }) => (
        <p key={id} className={`toast ${tone}`}>
          {text}
        </p>
      ))}
    </div>
  )
}
