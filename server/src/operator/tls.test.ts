/** A start with TLS, and a start without it where others could listen. */
import { X509Certificate } from 'node:crypto'
import { chmod, rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { Agent, request } from 'node:https'
import { text as readText } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { caller } from '../../../test/caller.ts'
import { makeCertificate } from '../../../test/certificate.ts'
import { runHere } from '../../../test/command.ts'
import { createDatabase, type Database } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { startListening } from '../../../test/start-server.ts'
import { type CertificateFiles, writeCertificate } from '../../../test/tls-service.ts'

let database: Database
let files: CertificateFiles
const pair = makeCertificate()
beforeEach(async () => {
  database = await createDatabase({ hasSchema: true })
  files = await writeCertificate(pair)
})
afterEach(async () => {
  await files.remove()
  await database.drop()
})

const refusal = async (settings: Record<string, string>) => {
  const { code, err } = await runHere([], { ...database.settings, COFFER_PORT: '0', ...settings })
  expect(code, err).toBe(1)
  return err
}

test('the service and its metrics are served by https, on every address', async () => {
  const metricsPort = await freePort()
  const service = await startListening({
    ...database.settings,
    ...files.settings,
    COFFER_HOST: '0.0.0.0',
    COFFER_PUBLIC_URL: 'https://coffer.test',
    COFFER_METRICS_PORT: String(metricsPort),
  })
  const agent = new Agent({ ca: pair.certificate })
  const call = caller(service.url.replace('http:', 'https:'), agent)
  expect(service.messages().join('\n')).toContain('https://coffer.test/setup')
  expect((await call('GET', '/readyz')).status).toBe(200)
  const metrics = await new Promise<string>((resolve, reject) => {
    const url = `https://127.0.0.1:${metricsPort}/metrics`
    request(url, { agent }, (response) => resolve(readText(response)))
      .on('error', reject)
      .end()
  })
  const plain = new Promise((resolve, reject) => {
    httpRequest(`${service.url}/readyz`, resolve).on('error', reject).end()
  })
  await expect(plain).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect((await call('GET', '/readyz')).status).toBe(200)
  const endsAt = Date.parse(new X509Certificate(pair.certificate).validTo) / 1_000
  expect(metrics).toContain(`\ncoffer_tls_certificate_expiry_seconds ${endsAt}\n`)
  agent.destroy()
  expect(await service.stop()).toMatchObject({ code: 0 })
})

test('the link of a start without a public URL is an https link', async () => {
  const service = await startListening({ ...database.settings, ...files.settings })
  expect(service.messages().join('\n')).toContain(`https://localhost:${service.port}`)
  await service.stop()
})

test('a certificate that cannot be used stops the start in one sentence', async () => {
  const { COFFER_TLS_CERT_FILE, COFFER_TLS_KEY_FILE } = files.settings
  expect(await refusal({ COFFER_TLS_CERT_FILE })).toBe(
    'Coffer cannot start. COFFER_TLS_CERT_FILE needs COFFER_TLS_KEY_FILE too: a certificate and its private key.\n',
  )
  await chmod(COFFER_TLS_KEY_FILE, 0o644)
  expect(await refusal(files.settings)).toBe(
    `Coffer cannot start. COFFER_TLS_KEY_FILE: every user of this machine can open ${COFFER_TLS_KEY_FILE}; run "chmod 600" on it.\n`,
  )
  await rm(COFFER_TLS_CERT_FILE)
  expect(await refusal(files.settings)).toBe(
    `Coffer cannot start. COFFER_TLS_CERT_FILE: the file ${COFFER_TLS_CERT_FILE} cannot be read (ENOENT).\n`,
  )
})

describe('plain http', () => {
  test.each(['0.0.0.0', '::', '192.0.2.7', 'coffer.example.com'])('is refused on %s', async (host) => {
    expect(await refusal({ COFFER_HOST: host, COFFER_PUBLIC_URL: 'https://coffer.example.com' })).toBe(
      `Coffer cannot start. COFFER_HOST: plain http on ${host} would show secrets to the network: set COFFER_TLS_CERT_FILE and COFFER_TLS_KEY_FILE, or name the proxy that terminates TLS in COFFER_TRUSTED_PROXIES, or set COFFER_PLAIN_HTTP=on.\n`,
    )
  })

  test.each([
    ['behind a trusted proxy', { COFFER_TRUSTED_PROXIES: '10.0.0.0/8' }],
    ['if it is asked for', { COFFER_PLAIN_HTTP: 'on' }],
  ])('is allowed on every address %s', async (_when, settings: Record<string, string>) => {
    const service = await startListening({
      ...database.settings,
      ...settings,
      COFFER_HOST: '0.0.0.0',
      COFFER_PUBLIC_URL: 'https://coffer.example.com',
    })
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
    await service.stop()
  })
})
