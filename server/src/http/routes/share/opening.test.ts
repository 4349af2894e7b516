/** Openings that share a transaction: each reader gets what they would get alone. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { ShareKey } from '@coffer/contract/share'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createShareProject, newClaim, type ShareProject } from '../../../../../test/share.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let project: ShareProject

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** Sends all requests at once, and returns status and content in their order. */
async function openAll(requests: readonly { token: string; key?: ShareKey }[]) {
  const answers = await Promise.all(requests.map(({ token, key }) => project.view(token, key)))
  return answers.map(({ status, body }) => ({ status, content: body.content, viewsLeft: body.viewsLeft }))
}

const refused = (status: number) => ({ status, content: undefined, viewsLeft: undefined })

test('readers of many shares at once each get their own content, count and refusal', async () => {
  const plain = await Promise.all(
    Array.from({ length: 8 }, (_, at) => project.make({ content: `content ${at}`, maxViews: at + 1 })),
  )
  const locked = await project.make({ content: 'locked', password: 'right', maxViews: 2 })
  const revoked = await project.make({ content: 'revoked' })
  await project.revoke(revoked.id)
  const claimed = await project.make({ content: 'claimed', maxViews: 3 })
  const key = { claim: newClaim() }
  const answers = await openAll([
    ...plain,
    revoked,
    { token: locked.token, key: { password: 'wrong' } },
    { token: claimed.token, key },
    { token: claimed.token, key },
  ])
  expect(answers.slice(0, 8)).toEqual(plain.map((_, at) => ({ status: 200, content: `content ${at}`, viewsLeft: at })))
  expect(answers.slice(8)).toEqual([
    refused(404),
    refused(403),
    { status: 200, content: 'claimed', viewsLeft: 2 },
    { status: 200, content: 'claimed', viewsLeft: 2 },
  ])
  for (const { id } of plain) expect(await project.views(id)).toMatchObject([{ outcome: 'success' }])
  expect((await project.views(claimed.id)).map(({ outcome }) => outcome)).toEqual(['repeated', 'success'])
  expect(await project.find(locked.id)).toMatchObject({ failures: 1, views: 0 })
  const [opened] = await openAll([{ token: locked.token, key: { password: 'right' } }])
  expect(opened).toEqual({ status: 200, content: 'locked', viewsLeft: 1 })
})

test('a damaged share fails only its own reader, and no other reader loses a view', async () => {
  const shares = await Promise.all(
    Array.from({ length: 6 }, (_, at) => project.make({ content: `content ${at}`, maxViews: 2 })),
  )
  const [damaged] = shares
  if (!damaged) throw new Error('there are shares')
  const [row] = await raw.query('select sealed from share where id = ?', [damaged.id])
  const bytes = Buffer.from(row?.sealed instanceof Uint8Array ? row.sealed : [])
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
  await raw.query('update share set sealed = ? where id = ?', [bytes, damaged.id])
  const answers = await openAll([...shares, ...shares])
  const one = (viewsLeft: number) => [500, ...Array<number>(5).fill(viewsLeft)]
  expect(answers.map(({ status, viewsLeft }) => viewsLeft ?? status).sort()).toEqual([...one(1), ...one(0)].sort())
  expect(answers.map(({ content }) => content)).toEqual(
    [...shares, ...shares].map((_, at) => (at % 6 === 0 ? undefined : `content ${at % 6}`)),
  )
  expect(await project.find(damaged.id)).toMatchObject({ views: 0, state: 'active' })
  expect(await project.views(damaged.id)).toEqual([])
})

test('every view is an entry of its own in the audit trail', async () => {
  const shares = await Promise.all(
    Array.from({ length: 5 }, (_, at) => project.make({ content: 'x', label: `s${at}` })),
  )
  await openAll(shares)
  for (const { id } of shares) {
    const path = `/v1/workspace/main/audit?entity=${id}&action=VIEW`
    const { body } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
    expect(body).toMatchObject([{ action: 'VIEW', outcome: 'success', after: { viewsLeft: 0 } }])
  }
  const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body.ok).toBe(true)
})
