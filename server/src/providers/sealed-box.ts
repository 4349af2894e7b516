/** Sealed boxes (libsodium's crypto_box_seal), which only the key's owner can open. Node's crypto has no XSalsa20. */
import { VendorFault } from './fault.ts'

/** Imports libsodium on first use, because most installations never need it. */
export async function sealBox(plaintext: string, publicKey: string): Promise<string> {
  const { default: sodium } = await import('libsodium-wrappers')
  await sodium.ready
  const key = Buffer.from(publicKey, 'base64')
  if (key.length !== sodium.crypto_box_PUBLICKEYBYTES) {
    throw new VendorFault('protocol', 'The public key of the service has the wrong length.')
  }
  return Buffer.from(sodium.crypto_box_seal(plaintext, key)).toString('base64')
}
