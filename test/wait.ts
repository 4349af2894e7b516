/** Waits for conditions, with limits that only end what hangs. */

/** Polls until there is a result. The last attempt starts after the deadline, so a slow attempt does not fail it. */
export async function until<Result>(
  ask: () => Result | undefined | Promise<Result | undefined>,
  deadlineMs: number,
  what: string,
): Promise<Result> {
  const startedAt = performance.now()
  while (true) {
    const askedAt = performance.now()
    const answer = await ask()
    if (answer !== undefined) return answer
    if (askedAt - startedAt > deadlineMs) throw new Error(`not within ${deadlineMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Measures elapsed milliseconds without the time in which this process or the machine stands still. */
export function startWatch(): { stop(): number } {
  const intervalMs = 10
  let elapsedMs = 0
  const timer = setInterval(() => {
    elapsedMs += intervalMs
  }, intervalMs)
  return {
    stop: () => {
      clearInterval(timer)
      return elapsedMs
    },
  }
}

/** Rejects if the work takes longer. */
export async function withinSeconds<Result>(seconds: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no result within ${seconds} seconds`)), seconds * 1_000)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
