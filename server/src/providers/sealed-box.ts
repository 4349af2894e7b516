/** Boxes that only the owner of a key can open (libsodium's crypto_box_seal); Node's own crypto has no XSalsa20. */
import { VendorFault } from './fault.ts'

/** Loaded when the first box is sealed: most services never need it. */
export async function sealBox(plaintext: string, publicKey: string): Promise<string> {
  const { default: sodium } = await import('libsodium-wrappers')
  await sodium.ready
  const key = Buffer.from(publicKey, 'base64')
  if (key.length !== sodium.crypto_box_PUBLICKEYBYTES) {
    throw new VendorFault('protocol', 'The public key of the service has a wrong length.')
  }
  return Buffer.from(sodium.crypto_box_seal(plaintext, key)).toString('base64')
}
