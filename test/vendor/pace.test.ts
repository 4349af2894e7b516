import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createVendorHttp } from '../../server/src/providers/vendor-http.ts'

/** A vendor with a limit of five requests per second, and a clock that moves only while waiting. */
function createPaced() {
  const clock = { at: Date.now() }
  const waits: number[] = []
  const http = createVendorHttp({
    outbound: { request: async () => ({ status: 200, headers: {}, body: Buffer.from('{}') }) },
    now: () => clock.at,
    perSecond: 5,
    async sleep(ms) {
      waits.push(ms)
      clock.at += ms
    },
  })
  const send = () => http.send({ method: 'POST', url: 'https://vendor.example/' })
  return { clock, waits, send }
}

test('after a short burst, requests are sent at the vendor’s rate', async () => {
  const { waits, send } = createPaced()
  for (let sent = 0; sent < 10; sent++) await send()
  expect(waits).toEqual([200, 200, 200, 200, 200])
})

test('a clock that is set back does not delay requests by the difference', async () => {
  const { clock, waits, send } = createPaced()
  for (let sent = 0; sent < 10; sent++) await send()
  clock.at -= 3_600_000
  for (let sent = 0; sent < 10; sent++) await send()
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_000)
})

test('a Retry-After wait ends when the run is aborted', async () => {
  const stopping = new AbortController()
  const waits: number[] = []
  const refusal = { status: 429, headers: { 'retry-after': '9' }, body: Buffer.from('{}') }
  const http = createVendorHttp({
    outbound: { request: async () => refusal },
    now: Date.now,
    perSecond: 5,
    // Longer than the test timeout: only the abort can end it.
    sleep(ms, signal) {
      waits.push(ms)
      const waiting = sleep(3_600_000, undefined, { ref: false, ...(signal && { signal }) })
      stopping.abort()
      return waiting
    },
    signal: stopping.signal,
  })
  await expect(http.send({ method: 'GET', url: 'https://vendor.example/' })).rejects.toMatchObject({
    kind: 'transient',
  })
  expect(waits).toEqual([9_000])
})
