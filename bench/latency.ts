/**
 * How long requests took, as wrk has counted it. What it prints are not the percentiles of its requests: for each that took
 * long it adds some that it would have sent meanwhile, had it not waited. Only those that were sent count here, as with
 * autocannon.
 */

/** The number of requests by the microseconds that they took. */
type Histogram = ReadonlyMap<number, number>

/** Lines of Lua: wrk calls `done` at the end. */
export const histogramLines = [
  'done = function(summary, latency)',
  '  io.write(string.format("histogram %d %d", summary.duration, summary.requests))',
  '  for i = 1, #latency do io.write(string.format(" %d:%d", latency(i))) end',
  '  io.write("\\n")',
  'end',
]

export function readHistogram(output: string, connections: number): Histogram {
  const [, duration, requests, pairs = ''] = /^histogram (\d+) (\d+)(.*)$/m.exec(output) ?? []
  const counted = new Map(
    pairs.matchAll(/(\d+):(\d+)/g).map(([, micros, count]): [number, number] => [Number(micros), Number(count)]),
  )
  const usual = Math.floor(Number(duration) / Math.max(1, Math.floor(Number(requests) / connections)))
  const sent = totalOf(counted) === Number(requests) ? counted : withoutAdded(counted, usual)
  if (totalOf(sent) !== Number(requests)) throw new Error('This wrk counts in a way that is not known here.')
  return sent
}

/** To each request of twice the usual time and more it has added one that took the usual time less, and so on. */
function withoutAdded(counted: Histogram, usual: number): Histogram {
  const sent = new Map(counted)
  for (const micros of [...counted.keys()].sort((a, b) => b - a)) {
    if (micros < 2 * usual) break
    const count = sent.get(micros) ?? 0
    for (let added = micros - usual; added > usual; added -= usual) sent.set(added, (sent.get(added) ?? 0) - count)
  }
  return sent
}

const totalOf = (histogram: Histogram) => histogram.values().reduce((sum, count) => sum + count, 0)

/** Such a share of the requests took no longer. */
export function percentileMs(histogram: Histogram, share: number): number {
  let left = totalOf(histogram) * share
  for (const [micros, count] of [...histogram].sort(([a], [b]) => a - b)) {
    left -= count
    if (left <= 0) return micros / 1_000
  }
  return Number.NaN
}
