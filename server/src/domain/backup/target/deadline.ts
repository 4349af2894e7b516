/** Time for a whole exchange with a target. A single request ends by itself only while nothing arrives at all. */
import { minuteMs } from '../../time.ts'
import { TargetError, type TargetOptions } from './target.ts'

/** The longest timer of Node. */
const maxTimerMs = 2 ** 31 - 1

export async function withDeadline<Result>(
  name: string,
  limitMs: number,
  { signal }: TargetOptions,
  work: (options: { readonly signal: AbortSignal }) => Promise<Result>,
): Promise<Result> {
  const deadline = new AbortController()
  const onLate = () => {
    const minutes = Math.round(limitMs / minuteMs)
    deadline.abort(new TargetError(`The backup target ${name} was too slow: it had ${minutes} minutes.`))
  }
  const timer = setTimeout(onLate, Math.min(limitMs, maxTimerMs))
  try {
    return await work({ signal: signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]) })
  } finally {
    clearTimeout(timer)
  }
}
