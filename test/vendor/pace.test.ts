import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createVendorHttp } from '../../server/src/providers/vendor-http.ts'

/** A vendor that takes five requests a second, and a clock that stands still but for the waits. */
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

test('after a short burst requests go out at the pace of the vendor', async () => {
  const { waits, send } = createPaced()
  for (let sent = 0; sent < 10; sent++) await send()
  expect(waits).toEqual([200, 200, 200, 200, 200])
})

test('a clock that is set back holds up no request for as long', async () => {
  const { clock, waits, send } = createPaced()
  for (let sent = 0; sent < 10; sent++) await send()
  clock.at -= 3_600_000
  for (let sent = 0; sent < 10; sent++) await send()
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_000)
})

test('a wait that the vendor asks for ends with the run', async () => {
  const stopping = new AbortController()
  const waits: number[] = []
  const refusal = { status: 429, headers: { 'retry-after': '9' }, body: Buffer.from('{}') }
  const http = createVendorHttp({
    outbound: { request: async () => refusal },
    now: Date.now,
    perSecond: 5,
    // Longer than anybody waits for a test: only the end of the run ends it.
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
