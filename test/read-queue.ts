/** The queue of large reads: a few requests wait in it, and all others are refused. */
import { expect } from 'vitest'
import { sql } from '../server/src/store/engine/sql.ts'
import { createToken, type TestService } from './harness.ts'
import { until } from './wait.ts'

/** One request runs, 32 wait for it, and all others are refused with a 503. */
export async function expectReadQueue(service: TestService, session: string, path: string): Promise<void> {
  const asked = 40
  // Each request has its own token: the cached response of another one would need no slot.
  const tokens = await Promise.all(Array.from({ length: asked }, () => createToken(service, session)))
  // No read can be recorded, and so none ends, before the lock is released.
  let isReleased = false
  const release = () => {
    isReleased = true
  }
  const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
  const holding = service.app.services.engine.transaction(workspace.id, async ({ db }) => {
    // PostgreSQL ends a transaction that is idle for ten seconds.
    const isOver = async () => (await db.one(sql`select 1 as one`)) && (isReleased || undefined)
    await until(isOver, 180_000, 'the lock is released')
  })
  let responded = 0
  const answering = tokens.map(async ({ token }) => {
    const answer = await fetch(service.url + path, { headers: { authorization: `Bearer ${token}` } })
    responded++
    await answer.arrayBuffer()
    return answer
  })
  await until(() => responded > 0 || undefined, 120_000, 'a request is refused').finally(release)
  await holding
  const answers = await Promise.all(answering)
  const refused = answers.filter(({ status }) => status === 503)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.every((answer) => answer.headers.get('retry-after') === '1')).toBe(true)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(asked - refused.length)
  const later = await fetch(service.url + path, { headers: { authorization: `Bearer ${session}` } })
  await later.arrayBuffer()
  expect(later.status).toBe(200)
}
