/** Many concurrent writers of one value, each with compare-and-set on the version that it has read. */
import { Agent, request } from 'node:http'
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Revision } from '@coffer/contract/history'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createToken, engine, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

const writers = times(16, 64)
/** A commit takes longer on PostgreSQL, so fewer writes cause as many conflicts. */
const increments = engine === 'sqlite' ? times(10, 50) : times(5, 20)
const total = writers * increments
const maxPauseMs = 1_500

let service: TestService
let project: SecretProject
let token: string
beforeAll(async () => {
  service = await startService()
  const owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  token = (await createToken(service, owner.session)).token
})
afterAll(() => service.stop())

test(`${writers} writers that increment a counter ${increments} times each with ifVersion lose no increment`, {
  timeout: 900_000,
}, async () => {
  await project.set('development', { COUNTER: '0' })
  const path = `${project.root}/secret/COUNTER`
  const agent = new Agent({ keepAlive: true, maxSockets: writers })
  const refused: number[] = []

  async function addAll(writer: number): Promise<void> {
    let known = await readCounter()
    let lost = 0
    for (let done = 0; done < increments; ) {
      const wanted = { environmentId: 'development', value: String(known.value + 1), ifVersion: known.version }
      const { status, text } = await ask(agent, 'PUT', `${path}/value`, wanted)
      expect([200, 412], text).toContain(status)
      if (status === 200) {
        known = { value: known.value + 1, version: JSON.parse(text).version }
        done++
        lost = 0
        continue
      }
      refused.push(writer)
      // Random backoff: without it, all writers would race for every increment.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(maxPauseMs, 50 * 2 ** lost++)))
      known = await readCounter()
    }
  }

  async function readCounter(): Promise<{ value: number; version: number }> {
    const { status, text } = await ask(agent, 'GET', `${path}?environmentId=development`)
    expect(status, text).toBe(200)
    const secret: Secret = JSON.parse(text)
    return { value: Number(secret.values[0]?.value), version: secret.values[0]?.version ?? 0 }
  }

  await Promise.all(Array.from({ length: writers }, (_, writer) => addAll(writer)))
  expect(await readCounter()).toEqual({ value: total, version: total + 1 })
  agent.destroy()
  expect(new Set(refused).size, 'writers who have met a quicker one').toBeGreaterThan(writers / 2)
  expect(refused.length).toBeGreaterThan(writers)

  const [newest] = await project.revisions('development', '?limit=1')
  expect(newest).toMatchObject<Partial<Revision>>({ revision: total + 1 })
  const raw = await openRaw(service)
  const numbers = await raw.query(`
    select count(*) as versions, count(distinct version) as different, min(version) as oldest, max(version) as newest,
      count(distinct revision) as revisions, max(revision) as newest_revision
    from secret_version`)
  await raw.close()
  const count = total + 1
  expect(numbers).toEqual([
    { versions: count, different: count, oldest: 1, newest: count, revisions: count, newest_revision: count },
  ])
  const trail = await service.call('GET', '/v1/workspace/main/audit?format=ndjson', { token })
  const entries = trail.text
    .trim()
    .split('\n')
    .map((line): AuditEntry => JSON.parse(line))
  const changes = entries.filter(({ action, entity, outcome }) => {
    return ['CREATE', 'UPDATE'].includes(action) && entity.name === 'COUNTER' && outcome === 'success'
  })
  expect(changes).toHaveLength(count)
  const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token })
  expect(verdict.body).toMatchObject({ ok: true })
})

/** Cheaper than the call of the harness: there are tens of thousands of requests. */
function ask(agent: Agent, method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const sending = request(service.url + path, { agent, method, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sending.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  })
}
