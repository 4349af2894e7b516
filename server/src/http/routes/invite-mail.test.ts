/** Invites by mail, against a real mail server: the mails that arrive, and invites that work without them. */
import { createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../../test/mail-server.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../test/member-workspace.ts'
import { until } from '../../../../test/wait.ts'
import { inQuietTransaction } from '../../domain/transaction.ts'

let mailServer: MailServer
let service: TestService
let owner: TestUser
let place: MemberWorkspace

beforeAll(async () => {
  mailServer = await startMailServer()
  service = await startService({
    COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}`,
    COFFER_MAIL_FROM: 'coffer@example.com',
    COFFER_PUBLIC_URL: 'https://coffer.example.com',
  })
  owner = await registerOwner(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(async () => {
  await service.stop()
  await mailServer.stop()
})

const mailOf = (where: MemberWorkspace, id: string, state: string) =>
  until(async () => (await where.row(id))?.mail === state || undefined, 120_000, `the mail of the invite is ${state}`)

/** The token in the link of the newest mail to this address. */
const mailedToken = (email: string) =>
  /https:\/\/coffer\.example\.com\/invite#(cof_inv_\w+)/.exec(mailsTo(email).at(-1)?.text ?? '')?.[1] ?? ''
const userOf = async (id: string) => (await place.row(id))?.user

test('the mail contains a link of its own, as text and HTML, not the link in the response', async () => {
  const email = place.newAddress()
  const issued = await place.mustInvite({ email })
  expect(issued).toMatchObject({
    mail: 'sending',
    inviteUrl: `https://coffer.example.com/invite#${issued.inviteToken}`,
  })
  const mail = await mailServer.mailTo(email)
  expect(mail).toMatchObject({ from: 'coffer@example.com', to: [email] })
  const token = mailedToken(email)
  expect(mail.text.split(`https://coffer.example.com/invite#${token}`)).toHaveLength(3)
  expect(mail.text).not.toContain(issued.inviteToken)
  expect(mail.text).toContain(owner.email)
  await mailOf(place, issued.id, 'sent')
  for (const secret of [issued.inviteToken, token]) expect(service.logs.join()).not.toContain(secret)
  const user = await addUser(service, email)
  expect((await place.accept(user.session, token)).status).toBe(200)
  expect(await place.row(issued.id)).not.toHaveProperty('mail')
})

test('joining by the mailed link verifies the address; joining by the link in the response does not, as the inviter has it too', async () => {
  const [byMail, byAnswer] = [place.newAddress(), place.newAddress()]
  const [first, second] = [await place.mustInvite({ email: byMail }), await place.mustInvite({ email: byAnswer })]
  for (const email of [byMail, byAnswer]) await mailServer.mailTo(email)
  expect(await userOf(first.id)).toMatchObject({ id: '', emailVerified: false })
  const registered = [
    await place.register(byMail, mailedToken(byMail)),
    await place.register(byAnswer, second.inviteToken),
  ]
  expect(registered.map(({ status }) => status)).toEqual([201, 201])
  expect(await userOf(first.id)).toMatchObject({ email: byMail, emailVerified: true })
  expect(await userOf(second.id)).toMatchObject({ email: byAnswer, emailVerified: false })
  const verified = await Promise.all(
    registered.map(({ body }) =>
      service.call<{ emailVerified: boolean }>('GET', '/v1/me', { token: body.accessToken }),
    ),
  )
  expect(verified.map(({ body }) => body.emailVerified)).toEqual([true, false])
  // Using one link invalidates the other.
  expect((await place.register(byAnswer, mailedToken(byAnswer))).status).toBe(403)
})

test('an existing account is verified by joining with the mailed link', async () => {
  const [user, other] = [await addUser(service, place.newAddress()), await addUser(service, place.newAddress())]
  const { id } = await place.mustInvite({ email: user.email })
  await mailServer.mailTo(user.email)
  const token = mailedToken(user.email)
  expect((await place.accept(other.session, token)).status).toBe(403)
  expect((await place.accept(user.session, token)).status).toBe(200)
  expect(await userOf(id)).toMatchObject({ id: user.id, emailVerified: true })
  expect(await place.trail(id)).toMatchObject([{ action: 'CREATE' }, { action: 'ACCEPT', after: { link: 'mailed' } }])
  const me = await service.call('GET', '/v1/me', { token: user.session })
  expect(me.body).toMatchObject({ emailVerified: true })
})

test('a mailed link is invalid after a resend and after declining', async () => {
  const user = await addUser(service, place.newAddress())
  const { id } = await place.mustInvite({ email: user.email })
  await mailServer.mailTo(user.email)
  const first = mailedToken(user.email)
  await place.ask('POST', `/rbac/${id}/resend`)
  await until(async () => mailsTo(user.email).length === 2 || undefined, 120_000, 'the second mail arrives')
  const second = mailedToken(user.email)
  expect((await place.accept(user.session, first)).status).toBe(404)
  expect((await place.decline(user.session, second)).status).toBe(200)
  expect((await place.accept(user.session, second)).status).toBe(404)
})

test('a resend mails a new link', async () => {
  const email = place.newAddress()
  const first = await place.mustInvite({ email })
  await mailServer.mailTo(email)
  const before = mailedToken(email)
  await place.ask('POST', `/rbac/${first.id}/resend`)
  await mailOf(place, first.id, 'sent')
  await until(async () => mailsTo(email).length === 2 || undefined, 120_000, 'the second mail arrives')
  expect(mailedToken(email)).toMatch(/^cof_inv_\w{36}$/)
  expect(mailedToken(email)).not.toBe(before)
})

test('updating an invite from a stale read keeps the delivery status of its mail', async () => {
  const { id } = await place.mustInvite()
  await mailOf(place, id, 'sent')
  const { invites } = service.app.services.store
  const read = (await invites.list((await place.row(id))?.workspaceId ?? '')).find((invite) => invite.id === id)
  // As read by another transaction a moment earlier.
  const stale = read && ({ ...read, mail: 'sending', grants: [{ ...read.grants[0], role: 'developer' }] } as const)
  if (stale) await inQuietTransaction(service.app.services, 'test', ({ invites }) => invites.update(stale))
  expect(await place.row(id)).toMatchObject({ role: 'developer', mail: 'sent' })
})

const mailsTo = (email: string) => mailServer.delivered.filter(({ to }) => to.includes(email))

test('a refused invite sends no mail', async () => {
  const before = mailServer.delivered.length
  expect((await place.invite({ email: owner.email })).status).toBe(409)
  expect((await place.invite({ scope: {} })).status).toBe(400)
  const email = place.newAddress()
  await place.mustInvite({ email })
  await mailServer.mailTo(email)
  expect(mailServer.delivered).toHaveLength(before + 1)
})

test('an address with an account and one without get the same mail', async () => {
  const known = await addUser(service, place.newAddress())
  const unknown = place.newAddress()
  const texts: string[] = []
  for (const email of [known.email, unknown]) {
    await place.mustInvite({ email })
    const { text } = await mailServer.mailTo(email)
    texts.push(
      text
        .replaceAll(email, '<email>')
        .replace(/cof_inv_\w+/g, '<token>')
        .replace(/^(Message-ID|Date):.*$|--_NmP-\S+/gim, '')
        .replace(/boundary=\S+/, '')
        .replace(/until [^.]+\./g, ''),
    )
  }
  expect(texts[0]).toBe(texts[1])
})

test('a workspace with a hostile name sends one mail, to the invited address only', async () => {
  const hostile = await createMemberWorkspace(service, owner)
  const name = '<img src=x> "Acme", Bcc: all@example.com'
  expect((await hostile.ask('PUT', '', { name })).status).toBe(200)
  const email = hostile.newAddress()
  await hostile.mustInvite({ email })
  const mail = await mailServer.mailTo(email)
  expect(mail.to).toEqual([email])
  expect(mail.raw).not.toMatch(/^Bcc:/im)
  expect(mail.text).toContain('&lt;img src=x&gt;')
})

test('an address gets ten mails in ten minutes at most, counted over all workspaces', async () => {
  const email = place.newAddress()
  const other = await createMemberWorkspace(service, owner)
  const { id } = await place.mustInvite({ email })
  await other.mustInvite({ email })
  for (let sent = 2; sent < 10; sent++) expect((await place.ask('POST', `/rbac/${id}/resend`)).status).toBe(200)
  const refused = await place.ask<{ message: string }>('POST', `/rbac/${id}/resend`)
  expect([refused.status, refused.body.message]).toEqual([
    429,
    'Too many mails to this address: wait before you send another.',
  ])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  await until(async () => mailsTo(email).length === 10 || undefined, 120_000, 'ten mails arrive')
  service.clock.offsetMs += 11 * 60_000
  expect((await place.ask('POST', `/rbac/${id}/resend`)).status).toBe(200)
})

test('failed logins do not use up the mail limit of an address', async () => {
  const email = place.newAddress()
  const login = { email: `letter:${email}`, password: 'a guess at nothing at all' }
  for (let tries = 0; tries < 11; tries++) await service.call('POST', '/v1/auth/login', { body: login })
  expect((await place.invite({ email })).status).toBe(201)
})

test('an unreachable mail server fails no invite: the list says failed, and the log has no link', async () => {
  // Nothing listens on port 1.
  const away = await startService({ COFFER_SMTP_URL: 'smtp://user:canary-word@127.0.0.1:1' })
  const there = await createMemberWorkspace(away, await registerOwner(away))
  const email = there.newAddress()
  const issued = await there.mustInvite({ email })
  expect(issued.mail).toBe('sending')
  await mailOf(there, issued.id, 'failed')
  const logs = away.logs.join()
  expect(logs).toContain('a mail could not be sent')
  for (const secret of [issued.inviteToken, 'canary-word', email]) expect(logs).not.toContain(secret)
  const user = await addUser(away, email)
  expect((await there.accept(user.session, issued.inviteToken)).status).toBe(200)
  await away.stop()
})

test('a mail lost with its node is listed as failed', async () => {
  // The mail server never sends a greeting, so the mail stays in flight.
  const sockets: Socket[] = []
  const silent = createServer((socket) => void sockets.push(socket.on('error', () => undefined).resume()))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  const waiting = await startService({
    COFFER_SMTP_URL: `smtp://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
  })
  const there = await createMemberWorkspace(waiting, await registerOwner(waiting))
  const { id } = await there.mustInvite()
  expect(await there.row(id)).toMatchObject({ mail: 'sending' })
  waiting.clock.offsetMs += 2 * 60_000
  expect(await there.row(id)).toMatchObject({ mail: 'failed' })
  // Otherwise, stop() would wait for the mail.
  const socket = await until(() => sockets[0], 120_000, 'the mail is in flight')
  socket.destroy()
  await waiting.stop()
  await new Promise((resolve) => silent.close(resolve))
})
