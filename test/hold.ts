/** A call of ours stands still once it is done, until the test lets it go on: what happens meanwhile is the race. */
export function holdOnce<Name extends string>(
  owner: Record<Name, (...asked: never[]) => Promise<unknown>>,
  name: Name,
): { readonly isDone: Promise<void>; goOn(): void } {
  const call = owner[name]
  const done = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  Reflect.set(owner, name, async (...asked: unknown[]) => {
    Reflect.set(owner, name, call)
    const result = await Reflect.apply(call, owner, asked)
    done.resolve()
    await over.promise
    return result
  })
  return { isDone: done.promise, goOn: over.resolve }
}
