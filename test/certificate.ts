/** Self-signed certificates with a validity of the test's choice. */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

export type TestCertificate = { readonly certificate: string; readonly key: string }

const dayMs = 86_400_000

/** Valid for coffer.test, localhost and 127.0.0.1; by default from yesterday for a year. */
export function makeCertificate({ from = Date.now() - dayMs, to = Date.now() + 365 * dayMs } = {}): TestCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // A verifier looks for an issuer by its name, so each certificate has another one.
  const name = sequence(set(sequence(oid('550403'), text(`coffer.test ${randomBytes(4).toString('hex')}`))))
  const algorithm = sequence(oid('2a8648ce3d040302'))
  const addresses = sequence(der(0x82, 'coffer.test'), der(0x82, 'localhost'), der(0x87, Buffer.from([127, 0, 0, 1])))
  const body = sequence(
    der(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    sequence(time(from), time(to)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extension('551d11', addresses), extension('551d13', sequence(der(0x01, Buffer.from([255])))))),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, privateKey)])
  const whole = sequence(body, algorithm, der(0x03, signature))
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? []
  return {
    certificate: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function der(tag: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content)
  const { length } = bytes
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), bytes])
}

const sequence = (...parts: Buffer[]) => der(0x30, Buffer.concat(parts))
const set = (...parts: Buffer[]) => der(0x31, Buffer.concat(parts))
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const text = (value: string) => der(0x0c, value)
const integer = (bytes: Buffer) => der(0x02, bytes)
const extension = (id: string, content: Buffer) => sequence(oid(id), der(0x04, content))

/** GeneralizedTime, whole seconds. */
const time = (ms: number) => der(0x18, `${new Date(ms).toISOString().slice(0, 19).replace(/[-T:]/g, '')}Z`)
