/** `health`, as the health check of a container runs it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../test/certificate.ts'
import { runHere } from '../../../test/command.ts'
import { startService } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'

test.each(['127.0.0.1', '0.0.0.0', 'localhost'])('is 0 while the service answers, for COFFER_HOST=%s', async (host) => {
  const service = await startService()
  onTestFinished(() => service.stop())
  const { port } = new URL(service.url)
  const settings = { COFFER_HOST: host, COFFER_PORT: port, COFFER_PUBLIC_URL: 'https://coffer.example.com' }
  expect(await runHere(['health'], settings)).toEqual({
    code: 0,
    err: '',
    out: `The service on port ${port} answers with status 200.\n`,
  })
})

test('is 1 if nobody listens, or somebody else', async () => {
  const port = await freePort()
  expect(await runHere(['health'], { COFFER_PORT: String(port) })).toMatchObject({
    code: 1,
    out: expect.stringContaining('ECONNREFUSED'),
  })
  const other = createServer((socket) => socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n'))
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => void other.close())
  expect(await runHere(['health'], { COFFER_PORT: String(port) })).toMatchObject({
    code: 1,
    out: `The service on port ${port} answers with status 404.\n`,
  })
})

test('is 0 with TLS, even if this machine does not know the authority of the certificate', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-health-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { certificate, key } = makeCertificate()
  const tls = { COFFER_TLS_CERT_FILE: join(folder, 'tls.crt'), COFFER_TLS_KEY_FILE: join(folder, 'tls.key') }
  await writeFile(tls.COFFER_TLS_CERT_FILE, certificate)
  await writeFile(tls.COFFER_TLS_KEY_FILE, key, { mode: 0o600 })
  const service = await startService({ ...tls, COFFER_PUBLIC_URL: 'https://coffer.test' })
  onTestFinished(() => service.stop())
  const { port } = new URL(service.url)
  const settings = { ...tls, COFFER_PORT: port, COFFER_PUBLIC_URL: 'https://coffer.test' }
  expect(await runHere(['health'], settings)).toMatchObject({
    code: 0,
    out: `The service on port ${port} answers with status 200.\n`,
  })
  const otherFile = join(folder, 'other.crt')
  await writeFile(otherFile, makeCertificate().certificate)
  expect(await runHere(['health'], { ...settings, COFFER_TLS_CERT_FILE: otherFile })).toMatchObject({
    code: 0,
    out: expect.stringContaining('shows a certificate that cannot be verified'),
  })
  // As behind a proxy that has another name than its nodes.
  expect(await runHere(['health'], { ...settings, COFFER_PUBLIC_URL: 'https://coffer.example.com' })).toMatchObject({
    code: 0,
    out: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID'),
  })
  // A service that speaks https only does not answer plain http.
  expect(await runHere(['health'], { COFFER_PORT: port })).toMatchObject({ code: 1 })
})
