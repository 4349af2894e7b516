import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type MailServer, startMailServer } from '../../test/mail-server.ts'
import { createLog } from './log.ts'
import { createMail, type Mail, type MailMessage, serverOf } from './mail.ts'

const message: MailMessage = {
  to: 'ann@example.com',
  subject: 'Grüße “from” the test',
  text: 'Plain words with a long line that goes on and on: https://coffer.example.com/invite#cof_inv_secret\n.\nafter a dot',
  html: '<p>Words as markup &amp; more</p>',
}

const stops: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

function open(smtpUrl: string, giveUpAfterMs = 120_000) {
  const logs: string[] = []
  const log = createLog('debug', { write: (line) => void logs.push(line) })
  const mail = createMail({ smtpUrl, from: 'coffer@example.com', clientName: 'coffer.example.com', log, giveUpAfterMs })
  stops.push(() => mail.close())
  return { mail, logs }
}

async function listen(options = {}): Promise<MailServer> {
  const server = await startMailServer(options)
  stops.push(() => server.stop())
  return server
}

/** A TCP server that does not speak SMTP. */
async function listenRaw(onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    onConnection(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stops.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return typeof address === 'object' && address ? address.port : 0
}

const outcomeOf = (mail: Mail, sent: MailMessage = message) =>
  new Promise<string>((resolve) => mail.post(sent, async (outcome) => resolve(outcome)))

test.each([
  ['smtp://mail.example.com', { port: 587, secure: false, requireTLS: false }],
  ['smtp://mail.example.com:25', { port: 25, secure: false, requireTLS: false }],
  ['smtps://mail.example.com', { port: 465, secure: true, requireTLS: false }],
  ['smtps://user:word@mail.example.com', { port: 465, secure: true, requireTLS: false }],
  // A password never goes over the network in the clear.
  ['smtp://user:word@mail.example.com', { port: 587, secure: false, requireTLS: true }],
  ['smtp://user:word@10.0.0.1:2525', { port: 2525, secure: false, requireTLS: true }],
  ['smtp://user:word@[::1]:2525', { host: '::1', port: 2525, secure: false, requireTLS: false }],
  ['smtp://user:word@localhost', { port: 587, requireTLS: false }],
])('the SMTP URL %s is parsed', (smtpUrl, expected) => {
  const { options, auth } = serverOf({ smtpUrl, clientName: 'coffer.example.com' })
  expect(options).toMatchObject({ ...expected, name: 'coffer.example.com' })
  expect(auth).toEqual(smtpUrl.includes('@') ? { user: 'user', pass: 'word' } : undefined)
})

test('a message arrives at its recipient only, as plain text and as HTML', async () => {
  const server = await listen()
  const { mail } = open(`smtp://127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail)).toBe('sent')
  const [arrived] = server.delivered
  expect(arrived).toMatchObject({ from: 'coffer@example.com', to: ['ann@example.com'] })
  expect(arrived?.raw).toMatch(/^From: coffer@example.com\r?$/m)
  expect(arrived?.raw).toMatch(/^To: ann@example.com\r?$/m)
  expect(arrived?.raw).toMatch(/^Subject: =\?UTF-8\?/m)
  expect(arrived?.raw).toContain('multipart/alternative')
  expect(arrived?.text).toContain(
    'https://coffer.example.com/invite#cof_inv_secret\n.\nafter a dot'.replaceAll('\n', '\r\n'),
  )
  expect(arrived?.text).toContain('<p>Words as markup &amp; more</p>')
})

test('the client logs in with the percent-decoded user name and password of the URL', async () => {
  const seen: unknown[] = []
  const server = await listen({
    authOptional: false,
    allowInsecureAuth: true,
    onAuth(
      auth: { username: string; password: string },
      _session: unknown,
      done: (error: null, answer: object) => void,
    ) {
      seen.push([auth.username, auth.password])
      done(null, { user: auth.username })
    },
  })
  const { mail } = open(`smtp://the%40user:p%2Fss@127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail)).toBe('sent')
  expect(seen).toEqual([['the@user', 'p/ss']])
})

test('a rejected password is a failure, and the log does not contain it', async () => {
  const server = await listen({
    authOptional: false,
    allowInsecureAuth: true,
    onAuth: (_auth: unknown, _session: unknown, done: (error: Error) => void) =>
      done(new Error('wrong password canary')),
  })
  const { mail, logs } = open(`smtp://user:canary@127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail)).toBe('failed')
  expect(logs.join()).toContain('EAUTH 5')
  expect(logs.join()).not.toMatch(/canary|ann@|cof_inv_|user:/)
})

test('a recipient rejected by the server is a failure', async () => {
  const server = await listen({
    onRcptTo: (_address: unknown, _session: unknown, done: (error: Error) => void) => done(new Error('no such person')),
  })
  const { mail, logs } = open(`smtp://127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail)).toBe('failed')
  expect(logs.join()).not.toContain('no such person')
  expect(JSON.parse(logs[0] ?? '').code).toBe('EENVELOPE 550')
})

test('an untrusted server certificate is a failure, and the log says why', async () => {
  const server = await listen({ secure: true })
  const { mail, logs } = open(`smtps://127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail)).toBe('failed')
  expect(server.delivered).toEqual([])
  expect(JSON.parse(logs[0] ?? '').code).toMatch(/^ESOCKET (?!ESOCKET)\w*CERT\w*$/)
})

test.each([
  'ann@example.com,bob@example.com',
  'ann,bob@example.com',
  'Ann <ann@example.com>',
  'ann@example.com>\r\nRCPT TO:<bob@example.com',
  '"ann"@example.com',
  'ann@[127.0.0.1]',
])('the recipient %j is never sent to the server', async (to) => {
  const server = await listen()
  const { mail } = open(`smtp://127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail, { ...message, to })).toBe('failed')
  expect(server.delivered).toEqual([])
})

test('line breaks in a subject cannot inject a header', async () => {
  const server = await listen()
  const { mail } = open(`smtp://127.0.0.1:${server.port}`)
  expect(await outcomeOf(mail, { ...message, subject: 'x\r\nBcc: bob@example.com\r\n\r\nbody' })).toBe('sent')
  expect(server.delivered[0]?.to).toEqual(['ann@example.com'])
  expect(server.delivered[0]?.raw).not.toMatch(/^Bcc:/im)
})

test('an unreachable server is a failure', async () => {
  const port = await listenRaw(() => undefined)
  for (const stop of stops.splice(0)) await stop()
  const { mail, logs } = open(`smtp://127.0.0.1:${port}`)
  expect(await outcomeOf(mail)).toBe('failed')
  expect(JSON.parse(logs[0] ?? '').code).toBe('ESOCKET ECONNREFUSED')
})

test.each<[string, RegExp, (socket: Socket) => void]>([
  ['never greets', /ETIMEDOUT/, () => undefined],
  ['closes the connection at once', /ECONN/, (socket) => socket.end()],
  ['greets and then stays silent', /ETIMEDOUT/, (socket) => void socket.write('220 mail.example.com\r\n')],
  [
    'never ends its greeting',
    /ETIMEDOUT/,
    (socket) => {
      const timer = setInterval(() => socket.write('220-still here\r\n'), 20)
      socket.on('close', () => clearInterval(timer))
    },
  ],
  ['speaks another protocol', /EPROTOCOL/, (socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
])('sending to a server that %s fails, closes the connection and logs the reason: %s', async (_what, code, behave) => {
  const closed = Promise.withResolvers<void>()
  const port = await listenRaw((socket) => {
    socket.on('close', () => closed.resolve())
    socket.resume()
    behave(socket)
  })
  const { mail, logs } = open(`smtp://127.0.0.1:${port}`, code.source === 'ETIMEDOUT' ? 400 : undefined)
  expect(await outcomeOf(mail)).toBe('failed')
  await closed.promise
  expect(JSON.parse(logs[0] ?? '').code).toMatch(code)
})

test('many messages sent at once all arrive, over at most five connections', async () => {
  // Nobody goes on before five are there: a slow machine would else be done with the first before the last connects.
  const held: (() => void)[] = []
  let isOpen = false
  const server = await listen({
    onMailFrom(_address: unknown, _session: unknown, done: () => void) {
      held.push(done)
      isOpen ||= held.length === 5
      if (isOpen) for (const go of held.splice(0)) go()
    },
  })
  const { mail } = open(`smtp://127.0.0.1:${server.port}`)
  const messages = Array.from({ length: 40 }, (_, index) => ({ ...message, to: `person-${index}@example.com` }))
  const outcomes = await Promise.all(messages.map((one) => outcomeOf(mail, one)))
  expect(new Set(outcomes)).toEqual(new Set(['sent']))
  expect(server.delivered.flatMap(({ to }) => to).sort()).toEqual(messages.map(({ to }) => to).sort())
  expect(server.maxConcurrent()).toBe(5)
})

test('closing fails every message that is still waiting', async () => {
  const port = await listenRaw(() => undefined)
  const { mail } = open(`smtp://127.0.0.1:${port}`)
  const outcomes = Array.from({ length: 12 }, () => outcomeOf(mail))
  await mail.close()
  expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['failed']))
})

test('an outcome that cannot be recorded is logged and does not throw', async () => {
  const server = await listen()
  const { mail, logs } = open(`smtp://127.0.0.1:${server.port}`)
  mail.post(message, async () => {
    throw new Error('the store is away')
  })
  await mail.close()
  expect(logs.join()).toContain('could not be recorded')
  expect(logs.join()).not.toContain('the store is away')
})
