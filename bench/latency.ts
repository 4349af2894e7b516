/**
 * Latency percentiles from wrk's histogram. wrk corrects for coordinated omission by adding requests that it never
 * sent; this removes them, so that the figures are comparable with autocannon's.
 */

/** Number of requests by latency in microseconds. */
type Histogram = ReadonlyMap<number, number>

/** Lua that wrk runs at the end: it calls `done`. */
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
  const intervalMicros = Math.floor(Number(duration) / Math.max(1, Math.floor(Number(requests) / connections)))
  const sent = totalOf(counted) === Number(requests) ? counted : removeCorrection(counted, intervalMicros)
  if (totalOf(sent) !== Number(requests)) throw new Error('The histogram of this wrk version has an unknown format.')
  return sent
}

/**
 * For each request that took at least twice the expected interval, wrk added one per interval it would have sent
 * meanwhile.
 */
function removeCorrection(counted: Histogram, intervalMicros: number): Histogram {
  const sent = new Map(counted)
  for (const micros of [...counted.keys()].sort((a, b) => b - a)) {
    if (micros < 2 * intervalMicros) break
    const count = sent.get(micros) ?? 0
    for (let added = micros - intervalMicros; added > intervalMicros; added -= intervalMicros)
      sent.set(added, (sent.get(added) ?? 0) - count)
  }
  return sent
}

const totalOf = (histogram: Histogram) => histogram.values().reduce((sum, count) => sum + count, 0)

/** The latency that this share of the requests did not exceed. */
export function percentileMs(histogram: Histogram, share: number): number {
  let left = totalOf(histogram) * share
  for (const [micros, count] of [...histogram].sort(([a], [b]) => a - b)) {
    left -= count
    if (left <= 0) return micros / 1_000
  }
  return Number.NaN
}
