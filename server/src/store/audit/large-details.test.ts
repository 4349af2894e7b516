/** A text that means harm: `like` would compare it at every position of a repetitive entry. */
import { expect, onTestFinished, test } from 'vitest'
import { createProject, registerOwner, startService } from '../../../../test/harness.ts'

test('a search for a repetitive text among large entries costs no more than one for any other', async () => {
  const service = await startService()
  onTestFinished(() => service.stop())
  const { session } = await registerOwner(service)
  await createProject(service, session, 'large')
  const environments = ['development', 'staging', 'production']
  const secrets = Array.from({ length: 3_000 }, (_, index) => ({ key: `${'A'.repeat(250)}${index}`, value: '1' }))
  const made = await service.call('POST', '/v1/workspace/main/project/large/secret', {
    token: session,
    body: { environments, secrets },
  })
  expect(made.status, made.text.slice(0, 200)).toBe(201)

  /** Milliseconds of processor time; of a few searches the cheapest, since the first ones compile code. */
  async function costOf(filter: 'q' | 'entity', text: string): Promise<number> {
    const costs: number[] = []
    for (let round = 0; round < 4; round++) {
      const before = process.cpuUsage()
      const query = new URLSearchParams({ [filter]: text })
      const { status, body } = await service.call('GET', `/v1/workspace/main/audit?${query}`, { token: session })
      const { user, system } = process.cpuUsage(before)
      expect([status, body]).toEqual([200, []])
      costs.push((user + system) / 1_000)
    }
    return Math.min(...costs)
  }
  // Matches nothing, which each position says only at its last character.
  const repetitive = `${'a'.repeat(198)}-!`
  for (const filter of ['q', 'entity'] as const) {
    const [ordinary, worst] = [await costOf(filter, 'nothing-is-called-this'), await costOf(filter, repetitive)]
    expect(worst).toBeLessThan(200 + 2 * ordinary)
  }
})
