/** Reads the certificate and the private key of the service. Each problem is one sentence, without a byte of the key. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { TlsFiles } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { codeOf } from '../error-code.ts'

export type KeyPair = {
  /** PEM: the certificate of the service, and then those that lead to its authority. */
  readonly cert: Buffer
  readonly key: Buffer
  /** The first end of any certificate in the file. */
  readonly expiresAt: number
}

const certificateSetting = 'COFFER_TLS_CERT_FILE'
const keySetting = 'COFFER_TLS_KEY_FILE'
const maxFileBytes = 1024 * 1024

export async function readKeyPair({ certificateFile, keyFile }: TlsFiles, nowMs: number): Promise<KeyPair> {
  const cert = await readPem(certificateSetting, certificateFile, 0)
  const key = await readPem(keySetting, keyFile, 0o007)
  const chain = parseCertificates(cert, certificateFile)
  const [own] = chain
  if (!own?.checkPrivateKey(parseKey(key, keyFile))) {
    throw new ConfigError(
      `${keySetting}: the key in ${keyFile} does not belong to the certificate in ${certificateFile}.`,
    )
  }
  requireValid(chain, certificateFile, nowMs)
  try {
    process.getBuiltinModule('node:tls').createSecureContext({ cert, key })
  } catch (error) {
    throw new ConfigError(
      `${certificateSetting}: the certificate in ${certificateFile} cannot be used (${codeOf(error)}).`,
    )
  }
  return { cert, key, expiresAt: Math.min(...chain.map(endOf)) }
}

async function readPem(setting: string, path: string, forbiddenMode: number): Promise<Buffer> {
  try {
    const handle = await open(path)
    try {
      // Asks the open file, so that the file that was checked is the one that is read.
      const { mode, size } = await handle.stat()
      if ((mode & forbiddenMode) !== 0) {
        throw new ConfigError(`${setting}: every user of this machine can open ${path}; run "chmod 600" on it.`)
      }
      if (size > maxFileBytes) throw new ConfigError(`${setting}: the file ${path} is larger than 1 MiB.`)
      return await handle.readFile()
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (error instanceof ConfigError) throw error
    throw new ConfigError(`${setting}: the file ${path} cannot be read (${codeOf(error)}).`)
  }
}

function parseCertificates(pem: Buffer, path: string): X509Certificate[] {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  try {
    if (blocks.length > 0) return blocks.map((block) => new X509Certificate(block))
  } catch {
    // Refused below, in our words.
  }
  throw new ConfigError(`${certificateSetting}: the file ${path} is not a certificate in PEM format.`)
}

function parseKey(pem: Buffer, path: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    throw new ConfigError(`${keySetting}: the file ${path} is not a private key in PEM format without a password.`)
  }
}

function requireValid(chain: readonly X509Certificate[], path: string, nowMs: number): void {
  for (const certificate of chain) {
    if (endOf(certificate) <= nowMs) {
      throw new ConfigError(
        `${certificateSetting}: a certificate in ${path} expired at ${timeOf(endOf(certificate))}; renew it.`,
      )
    }
    const startsAt = Date.parse(certificate.validFrom)
    if (startsAt > nowMs) {
      throw new ConfigError(
        `${certificateSetting}: a certificate in ${path} is not valid before ${timeOf(startsAt)}; check the clock.`,
      )
    }
  }
}

const endOf = ({ validTo }: X509Certificate) => Date.parse(validTo)
const timeOf = (ms: number) => new Date(ms).toISOString()
