/** Sets an entry as the newest of its map, and evicts the oldest one if the map now holds more than `max`. */
export function setBounded<Key, Value>(map: Map<Key, Value>, max: number, key: Key, value: Value): void {
  // A map keeps the order of insertion: an entry that is only overwritten would stay as old as it was.
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return
  const oldest = map.keys().next()
  if (!oldest.done) map.delete(oldest.value)
}
