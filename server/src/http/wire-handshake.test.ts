/** Clients that begin a TLS handshake and never finish it. */
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { requirePrograms } from '../../../test/debian-package.ts'
import { startCommand } from '../../../test/program.ts'
import { head } from '../../../test/raw-request.ts'
import { startTlsService, type TlsService } from '../../../test/tls-service.ts'
import { until, withinSeconds } from '../../../test/wait.ts'

function openPlain({ url }: TlsService, localAddress?: string): { socket: Socket; closed: Promise<unknown> } {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), ...(localAddress && { localAddress }) })
  return {
    socket: socket.resume(),
    closed: new Promise((resolve) => socket.on('error', () => undefined).once('close', resolve)),
  }
}

/** The first line of an answer over a connection of its own from this address. */
async function getOverTls(service: TlsService, localAddress: string): Promise<string> {
  const { socket } = openPlain(service, localAddress)
  socket.pause()
  const secure = service.connect({ socket })
  secure.on('error', () => undefined).write(head('GET /healthz HTTP/1.1'))
  const text: string = await new Promise((resolve) => {
    secure.once('data', (bytes) => resolve(String(bytes))).once('close', () => resolve('closed without an answer'))
  })
  secure.destroy()
  return text.split('\r\n')[0] ?? ''
}

const longTimeoutMs = 3_600_000

test.each([
  ['four strangers', 4],
  ['fifty strangers', 50],
])('%s who never finish their handshakes keep nobody out', async (_who, addresses) => {
  // However slow this machine is, no handshake ends by itself during the test.
  const service = await startTlsService({}, { handshakeTimeoutMs: longTimeoutMs })
  const sockets: Socket[] = []
  let opened = 0
  const open = (address: string) => {
    // Each stranger comes back when the service ends a handshake, but not for ever.
    if (++opened > 3_000) return
    const { socket, closed } = openPlain(service, address)
    sockets.push(socket)
    closed.then(() => open(address))
  }
  const count = () => new Promise<number>((resolve) => service.app.server.getConnections((_, held) => resolve(held)))
  try {
    for (let index = 0; index < 1_000; index++) open(`127.0.1.${1 + (index % addresses)}`)
    await until(async () => (await count()) === 1_000 || undefined, 120_000, 'the strangers hold all places')
    for (let index = 0; index < 67; index++) {
      const status = await getOverTls(service, `127.0.2.${1 + (index % 20)}`)
      expect(status).toBe('HTTP/1.1 200 OK')
      open(`127.0.1.${1 + (index % addresses)}`)
    }
    // The places are bounded all the same.
    expect(await count()).toBeLessThanOrEqual(1_000 + 67)
  } finally {
    opened = Number.POSITIVE_INFINITY
    for (const socket of sockets) socket.destroy()
    await service.stop()
  }
})

test('an address that has completed handshakes and then holds many keeps no newcomer out', async () => {
  const service = await startTlsService({}, { handshakeTimeoutMs: longTimeoutMs })
  const count = () => new Promise<number>((resolve) => service.app.server.getConnections((_, held) => resolve(held)))
  expect(await getOverTls(service, '127.0.1.1')).toBe('HTTP/1.1 200 OK')
  const held = Array.from({ length: 1_000 }, () => openPlain(service, '127.0.1.1').socket)
  try {
    await until(async () => (await count()) >= 1_000 || undefined, 120_000, 'all places are taken')
    for (let index = 0; index < 10; index++) {
      expect(await getOverTls(service, `127.0.2.${1 + index}`)).toBe('HTTP/1.1 200 OK')
    }
  } finally {
    for (const socket of held) socket.destroy()
    await service.stop()
  }
})

test('the service ends a handshake that takes too long, so that nobody is blocked for long', async () => {
  const service = await startTlsService()
  const codes: unknown[] = []
  service.app.server.on('tlsClientError', ({ code }: NodeJS.ErrnoException) => codes.push(code))
  const first = Array.from({ length: 250 }, () => openPlain(service))
  try {
    await withinSeconds(120, Promise.all(first.map(({ closed }) => closed)))
    expect(codes).toEqual(Array.from({ length: 250 }, () => 'ERR_TLS_HANDSHAKE_TIMEOUT'))
    expect((await service.call('GET', '/healthz')).status).toBe(200)
  } finally {
    for (const { socket } of first) socket.destroy()
    await service.stop()
  }
})

test('a client that closes in the middle of its handshake is forgotten at once', async () => {
  const service = await startTlsService()
  const codes: unknown[] = []
  service.app.server.on('tlsClientError', ({ code }: NodeJS.ErrnoException) => codes.push(code))
  const { socket, closed } = openPlain(service)
  await new Promise((resolve) => service.app.server.once('connection', resolve))
  socket.end()
  await closed
  expect(codes).toEqual(['ECONNRESET'])
  await service.stop()
})

test('a stop does not wait for the end of a handshake', async () => {
  const service = await startTlsService()
  const codes: unknown[] = []
  service.app.server.on('tlsClientError', ({ code }: NodeJS.ErrnoException) => codes.push(code))
  const { closed } = openPlain(service)
  await new Promise((resolve) => service.app.server.once('connection', resolve))
  await service.stop()
  await closed
  expect(codes).not.toContain('ERR_TLS_HANDSHAKE_TIMEOUT')
})

test('openssl verifies the certificate and talks to the service', async () => {
  await requirePrograms('openssl')
  const service = await startTlsService()
  const { port } = new URL(service.url)
  const program = startCommand('openssl', [
    's_client',
    ...['-connect', `127.0.0.1:${port}`, '-servername', 'coffer.test', '-verify_hostname', 'coffer.test'],
    ...['-CAfile', service.files.settings.COFFER_TLS_CERT_FILE, '-verify_return_error', '-quiet'],
  ])
  program.child.stdin?.write(head('GET /healthz HTTP/1.1'))
  const { out, err } = await program.ended
  expect(out, err).toMatch(/^HTTP\/1\.1 200 /)
  await service.stop()
})
