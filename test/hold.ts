/** Blocks the next call of a method after it is done, until the test releases it: makes a race deterministic. */
export function holdOnce<Name extends string>(
  owner: Record<Name, (...asked: never[]) => Promise<unknown>>,
  name: Name,
): { readonly isDone: Promise<void>; release(): void } {
  const call = owner[name]
  const done = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  Reflect.set(owner, name, async (...asked: unknown[]) => {
    Reflect.set(owner, name, call)
    const result = await Reflect.apply(call, owner, asked)
    done.resolve()
    await released.promise
    return result
  })
  return { isDone: done.promise, release: released.resolve }
}
