/** doctor says how fast the audit trail grows, and on SQLite for how long the disk has room. */
import { expect, onTestFinished, test } from 'vitest'
import { runHere } from '../../../../test/command.ts'
import { growTrail } from '../../../../test/grown-trail.ts'
import { engine, registerOwner, startService } from '../../../../test/harness.ts'

test('the growth is that of the last days, and old entries do not count', async () => {
  const service = await startService()
  onTestFinished(() => service.stop())
  const { session } = await registerOwner(service)
  const { id } = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body
  const dayMs = 86_400_000
  await growTrail(service, id, { rows: 3_000, at: (index) => Date.now() - 30 * dayMs + index })
  await growTrail(service, id, { rows: 7_000, at: (index) => Date.now() - 7 * dayMs + index * 86_000 })
  const { out } = await runHere(['doctor'], service.settings)
  const [, megabytes] = /growth: the audit trail takes (\d+\.\d) MB a day/.exec(out) ?? []
  // A thousand entries a day, of some 500 bytes each.
  expect(Number(megabytes), out).toBeGreaterThan(0.3)
  expect(Number(megabytes), out).toBeLessThan(0.9)
  if (engine === 'sqlite') expect(out).toMatch(/growth: .*, and the disk has room for (\d+ days|more than ten years)/)
})
