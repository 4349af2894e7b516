/** Clients that begin a TLS handshake and never finish it. */
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { requirePrograms } from '../../../test/debian-package.ts'
import { startCommand } from '../../../test/program.ts'
import { head } from '../../../test/raw-request.ts'
import { startTlsService, type TlsService } from '../../../test/tls-service.ts'
import { until, withinSeconds } from '../../../test/wait.ts'

function openPlain({ url }: TlsService): { socket: Socket; closed: Promise<unknown> } {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  return {
    socket: socket.resume(),
    closed: new Promise((resolve) => socket.on('error', () => undefined).once('close', resolve)),
  }
}

const longTimeoutMs = 3_600_000

test('clients that never finish the handshake are limited in number', async () => {
  // However slow this machine is, no handshake ends during the test.
  const service = await startTlsService({}, { handshakeTimeoutMs: longTimeoutMs })
  const first = Array.from({ length: 250 }, () => openPlain(service))
  const count = () => new Promise<number>((resolve) => service.app.server.getConnections((_, open) => resolve(open)))
  try {
    await until(async () => (await count()) === 250 || undefined, 120_000, 'all are accepted')
    // The limit of a client is reached: the next one is closed at once.
    const next = openPlain(service)
    await withinSeconds(120, next.closed)
    await expect(service.call('GET', '/healthz')).rejects.toThrow()
    expect(first.filter(({ socket }) => !socket.destroyed)).toHaveLength(250)
    first[0]?.socket.destroy()
    const again = await until(() => service.call('GET', '/healthz').catch(() => undefined), 120_000, 'a place is free')
    expect(again.status).toBe(200)
  } finally {
    for (const { socket } of first) socket.destroy()
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
