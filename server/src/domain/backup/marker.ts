/** The small file beside a backup in its target, which says that the backup was verified and is stored as a whole. */
import { rm, writeFile } from 'node:fs/promises'
import { signRow } from '../../crypto/row-mac.ts'
import type { Services } from '../context.ts'
import { markerOf } from './target/name.ts'
import type { BackupTarget, TransferOptions } from './target/target.ts'

export type MarkerContext = Pick<Services, 'keys' | 'version' | 'now'>

/** Call last: a backup without a marker may be incomplete. `draft` is the path of a file that may be made and removed. */
export async function putMarker(
  { keys, version, now }: MarkerContext,
  target: BackupTarget,
  { name, bytes }: { readonly name: string; readonly bytes: number },
  draft: string,
  options?: TransferOptions,
): Promise<void> {
  const verifiedAt = now()
  const { mac, macRootId } = signRow(keys.keyring.active, 'backup-marker', [name, bytes, verifiedAt])
  const marker = { name, bytes, verifiedAt, version, macRootId, mac: Buffer.from(mac).toString('hex') }
  await writeFile(draft, `${JSON.stringify(marker)}\n`, { mode: 0o600 })
  await target.put(markerOf(name), draft, options)
  await rm(draft)
}
