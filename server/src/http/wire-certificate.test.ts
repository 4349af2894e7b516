/** The certificate is replaced while the service runs. */
import { X509Certificate } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeCertificate, type TestCertificate } from '../../../test/certificate.ts'
import { registerOwner, type TestUser } from '../../../test/harness.ts'
import { head } from '../../../test/raw-request.ts'
import { callerOf, startTlsService, type TlsService, writeCertificate } from '../../../test/tls-service.ts'
import { until } from '../../../test/wait.ts'
import { createLog } from '../log.ts'
import { openTls } from '../tls/tls.ts'

const hourMs = 3_600_000

let service: TlsService
let owner: TestUser

beforeAll(async () => {
  service = await startTlsService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const serialOf = ({ certificate }: TestCertificate) => new X509Certificate(certificate).serialNumber

/** The serial number that a new connection is shown. */
function shownSerial(of = service): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = of.connect({ rejectUnauthorized: false })
    socket.once('error', reject)
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate().serialNumber)
      socket.destroy()
    })
  })
}

const untilShown = (pair: TestCertificate, of = service) =>
  until(async () => (await shownSerial(of)) === serialOf(pair) || undefined, 120_000, 'the new certificate is shown')

const reports = (text: string) => service.logs.filter((line) => line.includes(text))

test('under load: open connections live on, new ones get the new certificate, no request fails', async () => {
  const next = makeCertificate()
  const trust = service.pair.certificate + next.certificate
  const old = service.connect()
  await new Promise((resolve) => old.once('secureConnect', resolve))

  let isDone = false
  let count = 0
  const load = Array.from({ length: 6 }, async (_, index) => {
    // Every second client opens a connection for each request.
    const agent = new Agent({ keepAlive: index % 2 === 0, ca: trust })
    const call = callerOf(service.url, agent)
    while (!isDone) {
      expect((await call('GET', '/v1/me', { token: owner.session })).status).toBe(200)
      count++
    }
    agent.destroy()
  })
  await service.files.write(next)
  await untilShown(next)
  const before = count
  await until(() => count > before + 50 || undefined, 120_000, 'requests go on')
  isDone = true
  await Promise.all(load)

  const answer = new Promise((resolve) => old.once('data', (bytes) => resolve(String(bytes).split('\r\n')[0])))
  old.write(head('GET /v1/me HTTP/1.1', `Authorization: Bearer ${owner.session}`))
  expect(await answer).toBe('HTTP/1.1 200 OK')
  old.destroy()
  expect(reports('the TLS certificate was replaced; it is valid until ')).toHaveLength(1)
})

test('a broken pair keeps the certificate before and is reported once; the next good one is used', async () => {
  const [broken, good] = [makeCertificate(), makeCertificate()]
  const before = await shownSerial()
  await service.files.write({ ...broken, key: good.key })
  const text = 'the TLS certificate before stays in use: COFFER_TLS_KEY_FILE: the key in '
  await until(() => reports(text).length > 0 || undefined, 120_000, 'the report')
  expect(await shownSerial()).toBe(before)
  expect(reports(good.key.split('\n')[1] ?? '')).toEqual([])
  await service.files.write(good)
  await untilShown(good)
  expect(reports(text)).toHaveLength(1)
  expect(reports('stays in use')).toHaveLength(1)
})

test('a pair that is not valid yet is tried again until it is, and reported once', async () => {
  const startsAt = service.app.services.now() + hourMs
  const early = makeCertificate({ from: startsAt, to: startsAt + 24 * hourMs })
  const before = await shownSerial()
  const text = 'is not valid before '
  await service.files.write(early)
  await until(() => reports(text).length > 0 || undefined, 120_000, 'the report')
  expect(await shownSerial()).toBe(before)
  service.clock.offsetMs += 2 * hourMs
  await untilShown(early)
  expect(reports(text)).toHaveLength(1)
})

test('a pair that cannot be used is reported once, however often it is tried', async () => {
  const [broken, good] = [makeCertificate(), makeCertificate()]
  const files = await writeCertificate(good)
  const lines: string[] = []
  let tries = 0
  const now = () => {
    tries++
    return Date.now()
  }
  const log = createLog('debug', { write: (line) => void lines.push(line) })
  const tls = await openTls(
    { certificateFile: files.settings.COFFER_TLS_CERT_FILE, keyFile: files.settings.COFFER_TLS_KEY_FILE },
    log,
    now,
  )
  try {
    // Starts to look at the files.
    tls.createServer({})
    await files.write({ ...broken, key: good.key })
    // The clock is asked once at the start, and once in each attempt.
    await until(() => tries >= 4 || undefined, 120_000, 'three attempts')
    expect(lines.filter((line) => line.includes('stays in use'))).toEqual([
      expect.stringContaining('does not belong to the certificate'),
    ])
  } finally {
    tls.stop()
    await files.remove()
  }
})

test('files behind a symbolic link are found again after the link was replaced, as Kubernetes does', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-tls-'))
  const place = async (name: string, { certificate, key }: TestCertificate) => {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'tls.crt'), certificate)
    await writeFile(join(folder, name, 'tls.key'), key)
    await chmod(join(folder, name, 'tls.key'), 0o440)
    await symlink(name, join(folder, '..new'))
    await rename(join(folder, '..new'), join(folder, '..data'))
  }
  const [first, second] = [makeCertificate(), makeCertificate()]
  await place('..2026_01', first)
  for (const name of ['tls.crt', 'tls.key']) await symlink(`..data/${name}`, join(folder, name))
  const mounted = await startTlsService({
    COFFER_TLS_CERT_FILE: join(folder, 'tls.crt'),
    COFFER_TLS_KEY_FILE: join(folder, 'tls.key'),
  })
  try {
    expect(await shownSerial(mounted)).toBe(serialOf(first))
    await place('..2026_02', second)
    await rm(join(folder, '..2026_01'), { recursive: true })
    await untilShown(second, mounted)
  } finally {
    await mounted.stop()
    await rm(folder, { recursive: true })
  }
})
