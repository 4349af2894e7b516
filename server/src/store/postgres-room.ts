/** Room for so many transactions at a time; whoever waits for it too long is refused. */
export type Room = { enter(): Promise<void>; leave(): void }

export function createRoom(size: number, patienceMs: number): Room {
  let left = size
  const waiting = new Set<() => void>()
  return {
    enter() {
      if (left > 0) {
        left--
        return Promise.resolve()
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const timer = setTimeout(() => {
        waiting.delete(admit)
        reject(new Error('no room for a transaction'))
      }, patienceMs)
      const admit = () => {
        clearTimeout(timer)
        resolve()
      }
      waiting.add(admit)
      return promise
    },
    leave() {
      const [next] = waiting
      if (!next) {
        left++
        return
      }
      // The room is handed over, so that nobody who comes in between takes it.
      waiting.delete(next)
      next()
    },
  }
}
