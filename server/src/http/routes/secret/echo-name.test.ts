/** Rows sent back under a name that another secret has taken: a version alone does not identify the secret. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { KEY: 'd1' })
  await project.set('staging', { KEY: 's1' })
})

const read = () => project.must<Secret>('GET', '/secret/KEY')

/** A second passes between a read and the changes after it. */
const later = () => {
  service.clock.offsetMs += 1_000
}
async function replaceSecret() {
  later()
  await project.must('DELETE', '/secret/KEY')
  await project.set('development', { KEY: 'new d1' })
  await project.set('staging', { KEY: 'new s1' })
}

const asRead = ({ updatedAt }: { updatedAt: string }) => updatedAt
const inSeconds = ({ updatedAt }: { updatedAt: string }) => updatedAt.replace(/\.\d+Z$/, 'Z')
const elsewhere = ({ updatedAt }: { updatedAt: string }) => {
  const moved = new Date(Date.parse(updatedAt) + 3_600_000).toISOString()
  return moved.replace('Z', '+01:00')
}

test.each([
  ['as it was read', asRead],
  ['without milliseconds', inSeconds],
  ['in another time zone', elsewhere],
])('a row with updatedAt %s is refused by a new secret of the same name', async (_how, timeOf) => {
  const { values } = await read()
  await replaceSecret()
  const sent = values.map((row, index) => ({ ...row, updatedAt: timeOf(row), ...(index === 0 && { value: 'd2' }) }))
  const answer = await project.ask('PUT', '/secret/KEY', { name: 'KEY', values: sent })
  expect(answer.status, answer.text).toBe(409)
  expect(answer.body.message).toMatch(/^KEY has changed since you read it: .*development by owner@example.com at /)
  expect((await read()).values.map(({ value }) => value)).toEqual(['new d1', 'new s1'])
})

test.each([
  ['as it was read', asRead],
  ['without milliseconds', inSeconds],
  ['in another time zone', elsewhere],
  ['set to the time of the edit', () => new Date(service.clock.offsetMs + Date.now()).toISOString()],
  ['that cannot be parsed', () => 'yesterday'],
])('a row with updatedAt %s is written to the secret that it was read from', async (_how, timeOf) => {
  await replaceSecret()
  const { values } = await read()
  later()
  const sent = values.map((row) => ({ ...row, updatedAt: timeOf(row), value: `edited ${row.value}` }))
  expect((await project.ask('PUT', '/secret/KEY', { name: 'KEY', values: sent })).status).toBe(200)
  const again = sent.map((row) => ({ ...row, version: 2, value: 'once more' }))
  expect((await project.ask('PUT', '/secret/KEY', { name: 'KEY', values: again })).status).toBe(200)
  expect((await read()).values.map(({ value }) => value)).toEqual(['once more', 'once more'])
})
