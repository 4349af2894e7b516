/** Entries of tokens say whether the email address of the token's creator was confirmed at that time, on every node. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createDatabase,
  createProject,
  createToken,
  type Database,
  exchange,
  openService,
  registerOwner,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createIdentity, federate, loopbackAllowed, startIssuer } from '../../../../../test/issuer.ts'
import { type MailServer, startMailServer } from '../../../../../test/mail-server.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { until } from '../../../../../test/wait.ts'

let mailServer: MailServer
let database: Database
let here: TestService
let there: TestService
let owner: TestUser
let project: TestProject
const secrets = '/v1/workspace/main/project/api/secret'

beforeAll(async () => {
  mailServer = await startMailServer()
  database = await createDatabase({ hasSchema: true })
  const mail = { COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}` }
  const settings = { ...database.settings, ...mail, ...loopbackAllowed, COFFER_EXCHANGE_RATE_LIMIT: '0' }
  here = await openService(settings, database.dataDir)
  owner = await registerOwner(here)
  project = await createProject(here, owner.session, 'api')
  there = await openService(settings, database.dataDir)
  const body = { environments: [project.environments[0]?.id], secrets: [{ key: 'KEY', value: 'value' }] }
  expect((await here.call('POST', secrets, { token: owner.session, body })).status).toBe(201)
})
afterAll(async () => {
  await there.stop()
  await here.stop()
  await database.drop()
  await mailServer.stop()
})

let people = 0
async function newPerson(): Promise<TestUser> {
  const { body } = await here.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  return addUser(here, `person${people++}@example.com`, { workspaceId: body[0]?.id ?? '', role: 'admin' })
}

const mailed = async (email: string, form: RegExp) => form.exec((await mailServer.mailTo(email)).text)?.[1] ?? ''

async function confirmAddress({ email, session }: TestUser): Promise<void> {
  await here.call('POST', '/v1/me/email/verify', { token: session })
  const token = await mailed(email, /#confirm-email=(cof_mail_\w+)/)
  const confirmed = await here.call('POST', '/v1/me/email/confirm', { token: session, body: { token } })
  expect(confirmed.status, confirmed.text).toBe(200)
}

async function read(token: string, node = here): Promise<void> {
  const answer = await node.call('GET', secrets, { token })
  expect(answer.status, answer.text).toBe(200)
}

/** Action and `actorVerified` of every entry of the actor, oldest first. */
async function entriesOf(actorId: string) {
  const path = `/v1/workspace/main/audit?limit=200&actor=${actorId}`
  const { body } = await here.call<AuditEntry[]>('GET', path, { token: owner.session })
  return body.reverse().map(({ action, details }) => [action, details?.actorVerified])
}

test('a token, a command-line token and a JWT show whether their creator is confirmed, and the chain holds', async () => {
  const person = await newPerson()
  const fixed = await createToken(here, person.session)
  const jwt = await exchange(here, fixed.token)
  const environmentId = project.environments[0]?.id
  const cli = await here.call<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    token: person.session,
    body: { environmentId },
  })
  let written = 0
  const useAll = async () => {
    await read(fixed.token)
    await read(jwt)
    await read(cli.body.token)
    for (const token of [fixed.token, jwt]) {
      const body = { environments: [environmentId], secrets: [{ key: `BY_${people}_${written++}`, value: 'value' }] }
      expect((await here.call('POST', secrets, { token, body })).status).toBe(201)
    }
    await exchange(here, fixed.token)
  }
  await useAll()
  await confirmAddress(person)
  await useAll()

  const used = (isVerified: boolean) =>
    ['VIEW', 'VIEW', 'CREATE', 'CREATE', 'EXCHANGE'].map((action) => [action, isVerified])
  expect(await entriesOf(fixed.id)).toEqual([['EXCHANGE', false], ...used(false), ...used(true)])
  const verdict = await here.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body).toMatchObject({ ok: true })
  const tokens = await here.call<{ id: string; type: string }[]>('GET', '/v1/workspace/main/tokens', {
    token: person.session,
  })
  const cliId = tokens.body.find(({ type }) => type === 'cli')?.id ?? ''
  expect(await entriesOf(cliId)).toEqual([
    ['VIEW', false],
    ['VIEW', true],
  ])
})

test('a confirmation applies to the next entry on this node, and within a second on another node', async () => {
  const person = await newPerson()
  const { id, token } = await createToken(here, person.session)
  const jwt = await exchange(here, token)
  const lastOf = async () => (await entriesOf(id)).at(-1)
  for (const credential of [token, jwt]) {
    await read(credential)
    await until(
      async () => (await there.call('GET', secrets, { token: credential })).status === 200 || undefined,
      1_000,
      'known there',
    )
    expect(await lastOf()).toEqual(['VIEW', false])
  }
  await confirmAddress(person)
  const confirmedAt = performance.now()
  for (const credential of [token, jwt]) {
    await read(credential)
    expect(await lastOf()).toEqual(['VIEW', true])
  }
  for (const credential of [token, jwt]) {
    const hasHeard = async () => {
      await read(credential, there)
      return (await lastOf())?.[1] === true || undefined
    }
    await until(hasHeard, 1_000 - (performance.now() - confirmedAt), 'the other node has heard of it')
  }
})

test('an accepted mail invite to one workspace confirms the creator of tokens in the others', async () => {
  const person = await newPerson()
  const { id, token } = await createToken(here, person.session)
  await read(token)
  await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Other', slug: 'other' } })
  await here.call('POST', '/v1/workspace/other/rbac', {
    token: owner.session,
    body: { email: person.email, role: 'admin', scope: { all: true } },
  })
  const body = { token: await mailed(person.email, /\/invite#(cof_inv_\w+)/) }
  const accepted = await here.call('POST', '/v1/workspace/invite/accept', { token: person.session, body })
  expect(accepted.status, accepted.text).toBe(200)
  await read(token)
  expect(await entriesOf(id)).toEqual([
    ['VIEW', false],
    ['VIEW', true],
  ])
})

test('an entry of an OIDC identity has no actorVerified, because no person acts', async () => {
  const issuer = await startIssuer(() => here.app.services.now())
  const identity = await createIdentity(here, owner.session, { issuer: issuer.url, subject: 'build' })
  await read(await federate(here, await issuer.sign({ sub: 'build' })))
  expect(await entriesOf(identity.id)).toEqual([
    ['LOGIN', undefined],
    ['VIEW', undefined],
  ])
  await issuer.stop()
})

test('a confirmation written straight into the database does not count, and the token still works', async () => {
  const person = await newPerson()
  const { id, token } = await createToken(here, person.session)
  const raw = await openRaw(here)
  await raw.restoring(['account'], async () => {
    await raw.query('update account set email_verified_at = 1 where id = ?', [person.id])
    await read(token)
  })
  await raw.close()
  expect(await entriesOf(id)).toEqual([['VIEW', false]])
})
