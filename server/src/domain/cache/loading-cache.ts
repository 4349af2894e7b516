/**
 * A bounded cache with a loader, which evicts the least recently used entry. A key that is dropped during its load is
 * not cached: the load may have read the state before the change.
 */
import { setBounded } from '../../bounded-map.ts'

export type LoadingCache<Value> = {
  /** The cached value, without loading it. */
  peek(key: string): Value | undefined
  get(key: string): Promise<Value | undefined>
  drop(key: string): void
  clear(): void
}

export function createLoadingCache<Value>(
  max: number,
  load: (key: string) => Promise<Value | undefined>,
): LoadingCache<Value> {
  const known = new Map<string, Value>()
  const loading = new Map<string, Promise<Value | undefined>>()

  function loadOnce(key: string): Promise<Value | undefined> {
    const running = loading.get(key)
    if (running) return running
    const pending: Promise<Value | undefined> = load(key).then(
      (value) => {
        if (loading.get(key) !== pending) return value
        loading.delete(key)
        if (value !== undefined) setBounded(known, max, key, value)
        return value
      },
      (error) => {
        if (loading.get(key) === pending) loading.delete(key)
        throw error
      },
    )
    loading.set(key, pending)
    return pending
  }

  return {
    peek(key) {
      const value = known.get(key)
      // Recency matters only once the cache is full, as nothing is evicted before.
      if (value !== undefined && known.size === max) setBounded(known, max, key, value)
      return value
    },
    async get(key) {
      return this.peek(key) ?? loadOnce(key)
    },
    drop(key) {
      known.delete(key)
      loading.delete(key)
    },
    clear() {
      known.clear()
      loading.clear()
    },
  }
}
