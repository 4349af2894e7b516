/** Files that the service cannot use are refused in one sentence, which holds nothing of the key. */
import { generateKeyPairSync } from 'node:crypto'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { makeCertificate } from '../../../test/certificate.ts'
import { ConfigError } from '../config-error.ts'
import { readKeyPair } from './certificate.ts'

const dayMs = 86_400_000
const pair = makeCertificate()
let folder: string
let certificateFile: string
let keyFile: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-tls-'))
  certificateFile = join(folder, 'tls.crt')
  keyFile = join(folder, 'tls.key')
})
afterAll(() => rm(folder, { recursive: true }))
beforeEach(() => place(pair.certificate, pair.key))

async function place(certificate: string, key: string): Promise<void> {
  await writeFile(certificateFile, certificate)
  await writeFile(keyFile, key, { mode: 0o600 })
  await chmod(keyFile, 0o600)
}

async function refusal(): Promise<string> {
  const error: unknown = await readKeyPair({ certificateFile, keyFile }, Date.now()).catch((reason) => reason)
  if (!(error instanceof ConfigError)) throw new Error(`not refused: ${String(error)}`)
  expect(error.message).toMatch(/^[^\n]+\.$/)
  expect(error.message).not.toContain(pair.key.split('\n')[1])
  return error.message
}

test('a pair is accepted with its chain, and expires with the first certificate of it', async () => {
  const soon = Math.floor((Date.now() + 5 * dayMs) / 1_000) * 1_000
  await place(pair.certificate + makeCertificate({ to: soon }).certificate, pair.key)
  await chmod(keyFile, 0o640)
  const { cert, key, expiresAt } = await readKeyPair({ certificateFile, keyFile }, Date.now())
  expect(expiresAt).toBe(soon)
  expect(cert.toString()).toContain(pair.certificate)
  expect(key.toString()).toBe(pair.key)
})

test.each(['604', '644', '666', '601'])('a key that every user can open is refused: mode %s', async (mode) => {
  await chmod(keyFile, Number.parseInt(mode, 8))
  expect(await refusal()).toBe(
    `COFFER_TLS_KEY_FILE: every user of this machine can open ${keyFile}; run "chmod 600" on it.`,
  )
})

test('missing files, folders and large files are refused', async () => {
  await rm(certificateFile)
  expect(await refusal()).toBe(`COFFER_TLS_CERT_FILE: the file ${certificateFile} cannot be read (ENOENT).`)
  await place(pair.certificate, pair.key)
  await rm(keyFile)
  expect(await refusal()).toBe(`COFFER_TLS_KEY_FILE: the file ${keyFile} cannot be read (ENOENT).`)
  await place('x'.repeat(1024 * 1024 + 1), pair.key)
  expect(await refusal()).toBe(`COFFER_TLS_CERT_FILE: the file ${certificateFile} is larger than 1 MiB.`)
})

const locked = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'hunter2',
})

test.each([
  ['an empty certificate', '', pair.key, /^COFFER_TLS_CERT_FILE: .* is not a certificate in PEM format\.$/],
  ['a key as certificate', pair.key, pair.key, /^COFFER_TLS_CERT_FILE: .* is not a certificate in PEM format\.$/],
  [
    'a damaged certificate',
    pair.certificate.replace('MII', 'MIJ'),
    pair.key,
    /^COFFER_TLS_CERT_FILE: .* is not a certificate in PEM format\.$/,
  ],
  ['a certificate as key', pair.certificate, pair.certificate, /^COFFER_TLS_KEY_FILE: .* is not a private key/],
  ['a key with a password', pair.certificate, String(locked), /^COFFER_TLS_KEY_FILE: .* without a password\.$/],
  [
    'the key of another certificate',
    pair.certificate,
    makeCertificate().key,
    /^COFFER_TLS_KEY_FILE: the key in .* does not belong to the certificate in .*\.$/,
  ],
])('%s is refused', async (_what, certificate, key, sentence) => {
  await place(certificate, key)
  expect(await refusal()).toMatch(sentence)
})

test.each([
  ['expired', { from: Date.now() - 9 * dayMs, to: Date.now() - dayMs }, / expired at \S+Z; renew it\.$/],
  ['not valid yet', { from: Date.now() + dayMs }, / is not valid before \S+Z; check the clock\.$/],
])('a certificate that is %s is refused, in the chain too', async (_what, validity, sentence) => {
  const wrong = makeCertificate(validity)
  await place(wrong.certificate, wrong.key)
  expect(await refusal()).toMatch(sentence)
  await place(pair.certificate + wrong.certificate, pair.key)
  expect(await refusal()).toMatch(sentence)
})
