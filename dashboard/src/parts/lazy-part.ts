import { type ComponentType, useEffect, useSyncExternalStore } from 'react'
import { say } from './toast.tsx'

type LazyPart<Props> = {
  loaded: ComponentType<Props> | undefined
  load(): Promise<void>
  subscribe(listener: () => void): () => void
}

/**
 * A part that the first view does without. It is loaded at the first key or click, before a person can need it: an
 * upgrade of the service removes its file, and must not take away the dialog that saves their edits.
 */
export function lazyPart<Props>(request: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  const listeners = new Set<() => void>()
  let loading: Promise<void> | undefined

  async function start(): Promise<void> {
    try {
      part.loaded = await request()
      for (const listener of listeners) listener()
    } finally {
      loading = undefined
    }
  }

  const part: LazyPart<Props> = {
    loaded: undefined,
    async load() {
      if (part.loaded) return
      loading ??= start()
      await loading
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
  for (const event of ['pointerdown', 'keydown']) {
    addEventListener(event, () => void part.load().catch(() => undefined), { capture: true })
  }
  return part
}

/** The part once it is needed and loaded. After a failure, the next key or click tries again. */
export function useLazyPart<Props>(part: LazyPart<Props>, isNeeded: boolean): ComponentType<Props> | undefined {
  const loaded = useSyncExternalStore(part.subscribe, () => part.loaded)
  useEffect(() => {
    if (!isNeeded) return
    part.load().catch(() => {
      say('A part of this page could not be loaded. Check your connection, or reload the page.', 'bad')
    })
  }, [part, isNeeded])
  return isNeeded ? loaded : undefined
}
