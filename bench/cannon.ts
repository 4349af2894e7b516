/** Runs autocannon in its own process: reads the load from a file and prints the result. */
import { readFileSync } from 'node:fs'
import autocannon from 'autocannon'
import { type Load, median, methodOf, type Result } from './load.ts'

const load: Load = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))
const { url, headers = {}, body, paths, bearers, amount, seconds, connections } = load
const run = Date.now()
let count = 0
const common = {
  url,
  method: methodOf(load),
  headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
  connections,
}

// Warms up: a run of few requests would end before V8 has compiled the generator.
if (amount !== undefined) await autocannon({ ...common, duration: 1 })

const cannon = autocannon({
  ...common,
  ...(amount === undefined ? { duration: seconds } : { amount }),
  requests: [
    {
      // The counter is shared by all connections, so no two requests are the same.
      setupRequest(request) {
        const path = paths?.[count % paths.length]
        const bearer = bearers?.[count % bearers.length]
        count++
        return {
          ...request,
          ...(path !== undefined && { path }),
          ...(bearer !== undefined && { headers: { ...request.headers, authorization: `Bearer ${bearer}` } }),
          ...(body !== undefined && { body: body.replaceAll('§', `${run}_${count}`) }),
        }
      },
    },
  ],
})
const startedAt = performance.now()
let endedAt = startedAt
const latencies: number[] = []
cannon.on('response', (_client, _status, _bytes, ms) => {
  latencies.push(ms)
  endedAt = performance.now()
})
const outcome = await cannon
const result: Result = {
  perSecond: (latencies.length * 1_000) / (endedAt - startedAt),
  p50Ms: median(latencies),
  p99Ms: latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.99)] ?? Number.NaN,
  errors: outcome['4xx'] + outcome['5xx'] + outcome.errors + outcome.timeouts,
}
process.stdout.write(JSON.stringify(result))
