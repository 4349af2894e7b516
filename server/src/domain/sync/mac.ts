/** Keyed digests that stand for values: in the ledger, in plans and in ids of operations. */
import { createHmac, type KeyObject } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'

/** Compares values without revealing them: keyed, and bound to the name. */
export function macOf(macKey: KeyObject, name: string, value: string): string {
  return createHmac('sha256', macKey)
    .update(lengthPrefixed([name, value]))
    .digest('base64url')
}

/** The same operation of the same run always has the same id, so that vendors can ignore a repetition. */
export function operationIdOf(macKey: KeyObject, fence: number, name: string, valueMac: string): string {
  const hash = createHmac('sha256', macKey)
    .update(lengthPrefixed(['operation', String(fence), name, valueMac]))
    .digest()
  hash.writeUInt8(((hash[6] ?? 0) & 0x0f) | 0x40, 6)
  hash.writeUInt8(((hash[8] ?? 0) & 0x3f) | 0x80, 8)
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}
