/** Asks the service for changes while the command runs. */
import type { Context } from '../context.ts'
import { isRefusal, type Opened } from './read-source.ts'

/** Several changes in a row restart the command once. */
const debounceMs = 1_000

type WatchOptions = {
  readonly intervalMs: number
  readonly signal: AbortSignal
  /** Called when a change has settled. */
  readonly onChange: () => void
}

/** Keeps `values` of every source up to date. A failure never ends the command: at most the watching ends. */
export function watchSources(ctx: Pick<Context, 'out'>, sources: readonly Watched[], options: WatchOptions): void {
  let timer: NodeJS.Timeout | undefined
  options.signal.addEventListener('abort', () => clearTimeout(timer))
  const changed = () => {
    clearTimeout(timer)
    timer = setTimeout(options.onChange, debounceMs)
  }
  for (const source of sources) void watchSource(ctx, source, { ...options, onChange: changed })
}

export type Watched = {
  readonly opened: Opened
  values: Readonly<Record<string, string>>
}

async function watchSource(
  ctx: Pick<Context, 'out'>,
  watched: Watched,
  { intervalMs, signal, onChange }: WatchOptions,
): Promise<void> {
  const { opened } = watched
  const { setTimeout: sleep } = process.getBuiltinModule('node:timers/promises')
  while (!signal.aborted) {
    try {
      // Commands that were started together must not ask together.
      await sleep(intervalMs * (0.9 + Math.random() / 5), undefined, { signal })
      const { values } = await opened.refresh(signal)
      if (isEqual(values, watched.values)) continue
      watched.values = values
      onChange()
    } catch (error) {
      if (signal.aborted) return
      if (isRefusal(error)) {
        opened.cache?.remove()
        ctx.out.warn(
          `coffer: ${error.message} Changes of ${opened.source.label} are no longer watched; the command keeps running.`,
        )
        return
      }
      ctx.out.detail(`coffer: ${error instanceof Error ? error.message : 'The service cannot be asked for changes.'}`)
    }
  }
}

function isEqual(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(one)
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name])
}
