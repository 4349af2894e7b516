/** A node whose clock differs from that of its database says so. */
import { expect, test } from 'vitest'
import { engine, startService } from '../../../test/harness.ts'
import { createClockJob } from './clock.ts'

const metricsToken = 'a token for the metrics'

test.each([
  [60_000, 'ahead of'],
  [-60_000, 'behind'],
])(
  'a clock that is %i ms off is in the log once and in the metrics, and the node stays ready',
  async (offsetMs, word) => {
    const service = await startService({ COFFER_METRICS_TOKEN: metricsToken })
    const look = createClockJob(service.app.services)
    const said = () => service.logs.filter((line) => line.includes('clock of this node')).length
    const agreed = () => service.logs.filter((line) => line.includes('agree again')).length
    const metric = async () => {
      const { text } = await service.call('GET', '/metrics', { token: metricsToken })
      return /^coffer_clock_offset_seconds (\S+)$/m.exec(text)?.[1]
    }
    await look()
    expect(said()).toBe(0)
    service.clock.offsetMs = offsetMs
    for (let time = 0; time < 3; time++) await look()
    if (engine === 'sqlite') {
      // The file has no clock of its own.
      expect([said(), await metric()]).toEqual([0, undefined])
    } else {
      expect(said()).toBe(1)
      expect(service.logs.join('\n')).toContain(`s ${word} that of its database`)
      expect(Math.abs(Number(await metric()) - offsetMs / 1_000)).toBeLessThan(30)
    }
    expect((await service.call('GET', '/readyz')).status).toBe(200)
    service.clock.offsetMs = 0
    for (let time = 0; time < 2; time++) await look()
    expect(agreed()).toBe(engine === 'sqlite' ? 0 : 1)
    await service.stop()
  },
)
