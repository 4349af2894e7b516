/** The small file beside a backup in its target, which says that the backup was verified and is stored as a whole. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import type { Keyring } from '../../crypto/keyring.ts'
import { isRowGenuine, signRow } from '../../crypto/row-mac.ts'
import type { Services } from '../context.ts'
import { markerOf } from './target/name.ts'
import type { BackupTarget, TransferOptions } from './target/target.ts'

export type MarkerContext = Pick<Services, 'keys' | 'version' | 'now'>
type MarkedFile = { readonly name: string; readonly bytes: number }

/** A larger file is no marker. */
export const maxMarkerBytes = 4096
const macOf = 'backup-marker'

/**
 * Call last: a backup without a marker may be incomplete. `file` is its local path, `draft` that of a file that may be made
 * and removed.
 */
export async function putMarker(
  { keys, version, now }: MarkerContext,
  target: BackupTarget,
  { name, bytes, file }: MarkedFile & { readonly file: string },
  draft: string,
  options?: TransferOptions,
): Promise<void> {
  const verifiedAt = now()
  const sha256 = await digestOf(file)
  const { mac, macRootId } = signRow(keys.keyring.active, macOf, [name, bytes, verifiedAt, sha256])
  const marker = { name, bytes, sha256, verifiedAt, version, macRootId, mac: Buffer.from(mac).toString('hex') }
  await writeFile(draft, `${JSON.stringify(marker)}\n`, { mode: 0o600 })
  await target.put(markerOf(name), draft, options)
  await rm(draft)
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(file)) hash.update(piece)
  return hash.digest('hex')
}

/**
 * `own`: signed by this installation, for a file of this name and size. `unknown`: signed by a key that this
 * installation does not have. `broken`: anything else.
 */
export function checkMarker(keyring: Keyring, text: string, { name, bytes }: MarkedFile): 'own' | 'unknown' | 'broken' {
  const { mac, macRootId, verifiedAt, sha256 } = parse(text)
  if (typeof mac !== 'string' || typeof macRootId !== 'string' || typeof verifiedAt !== 'number') return 'broken'
  if (!keyring.find(macRootId)) return 'unknown'
  const signed = { mac: Buffer.from(mac, 'hex'), macRootId }
  // Markers of 0.1.0 have no digest; from one that was signed with it, nobody can take it away.
  const digest = typeof sha256 === 'string' ? [sha256] : []
  return isRowGenuine(keyring, macOf, [name, bytes, verifiedAt, ...digest], signed) ? 'own' : 'broken'
}

type Fields = {
  readonly mac?: unknown
  readonly macRootId?: unknown
  readonly verifiedAt?: unknown
  readonly sha256?: unknown
}

function parse(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
