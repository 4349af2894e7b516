/**
 * Reads certificates as people have them: PEM whose line breaks a form removed, or the base64 of PEM in a kubeconfig.
 */
import { X509Certificate } from 'node:crypto'

const block = /-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----/gs

/** Undefined if the text contains no certificate or a broken one. */
export function readCertificates(text: string): string | undefined {
  const pem = text.includes('-----BEGIN') ? text : Buffer.from(text, 'base64').toString('utf8')
  const certificates = [...pem.matchAll(block)].map(([, body = '']) => wrap(body.replace(/\\[nr]|\s/g, '')))
  return certificates.length > 0 && certificates.every(isCertificate) ? certificates.join('\n') : undefined
}

function wrap(body: string): string {
  const lines = body.match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----'].join('\n')
}

function isCertificate(pem: string): boolean {
  try {
    new X509Certificate(pem)
    return true
  } catch {
    return false
  }
}
