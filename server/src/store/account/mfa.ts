/**
 * A person's second factor. The secret is sealed under the root that also signs the row, with the account in the
 * associated data. The same record seals a separate key for recovery-code hashes, so that these survive a rotation of
 * the root.
 */
import { createHmac, type KeyObject } from 'node:crypto'
import { asKey, associatedData, keyBytes, lengthPrefixed, newKey, open, seal } from '../../crypto/envelope.ts'
import type { RootKey } from '../../crypto/keyring.ts'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { totpSecretBytes } from '../../crypto/totp.ts'
import { Failure } from '../../failure.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

type TotpFields = {
  readonly id: string
  readonly userId: string
  readonly sealed: Uint8Array
  /** The last time step whose code was used. */
  readonly lastStep: number
  readonly createdAt: number
  /** Null until the first code confirms the factor. */
  readonly confirmedAt: number | null
}
type TotpRow = TotpFields & RowMac

export type Totp = TotpRow & { readonly secret: Uint8Array; readonly recoveryKey: KeyObject }

const columns = fragment(`
  id, user_id as "userId", sealed, last_step as "lastStep", created_at as "createdAt", confirmed_at as "confirmedAt",
  mac, mac_root_id as "macRootId"`)

const macFields = (row: TotpFields): MacField[] => [
  row.id,
  row.userId,
  row.sealed,
  row.lastStep,
  row.createdAt,
  row.confirmedAt,
]

const sealVersion = 1
const place = (row: Pick<TotpRow, 'id' | 'userId'>, root: RootKey) =>
  associatedData('totp', row.userId, row.id, root.id)

export function mfaStore(db: Db, keys: Keys) {
  const rows = verifiedRows<TotpFields, TotpRow>(keys, 'totp', macFields)

  async function openSealed(row: TotpRow): Promise<Buffer> {
    const root = await keys.requireRoot(row.macRootId)
    return open(root.wrap, place(row, root), row.sealed)
  }

  async function opened(row: TotpRow): Promise<Totp> {
    if (!(await rows.isGenuine(row))) throw new Failure('integrity')
    const bytes = await openSealed(row)
    if (bytes.length !== totpSecretBytes + keyBytes) throw new Failure('integrity')
    return { ...row, secret: bytes.subarray(0, totpSecretBytes), recoveryKey: asKey(bytes.subarray(totpSecretBytes)) }
  }

  /** Seals and signs the row under the active root; false if the row changed meanwhile. */
  async function save(row: TotpRow, change: Partial<Pick<TotpRow, 'lastStep' | 'confirmedAt'>>): Promise<boolean> {
    const root = keys.keyring.active
    const sealed = seal(root.wrap, sealVersion, place(row, root), await openSealed(row))
    const next = { ...row, ...change, sealed }
    const { mac, macRootId } = rows.sign(next)
    const changed = await db.count(sql`
      update totp set sealed = ${sealed}, last_step = ${next.lastStep}, confirmed_at = ${next.confirmedAt}, mac = ${mac},
        mac_root_id = ${macRootId}
      where id = ${row.id} and user_id = ${row.userId} and mac = ${row.mac}`)
    return changed === 1
  }

  /** Bound to one person and one enrolment: a hash copied to another row matches nothing. */
  const hashOf = (totp: Totp, code: string) =>
    createHmac('sha256', totp.recoveryKey)
      .update(lengthPrefixed(['recovery-code', totp.userId, totp.id, code]))
      .digest()

  return {
    async find(userId: string): Promise<Totp | undefined> {
      const row = await db.one<TotpRow>(sql`select ${columns} from totp where user_id = ${userId}`)
      return row && opened(row)
    },

    insert(totp: Pick<TotpRow, 'id' | 'userId' | 'createdAt'>, secret: Uint8Array): void {
      const root = keys.keyring.active
      const sealed = seal(root.wrap, sealVersion, place(totp, root), Buffer.concat([secret, newKey()]))
      const fields = { ...totp, sealed, lastStep: 0, confirmedAt: null }
      const { mac, macRootId } = rows.sign(fields)
      db.write(sql`
        insert into totp (id, user_id, sealed, last_step, created_at, confirmed_at, mac, mac_root_id)
        values (${totp.id}, ${totp.userId}, ${sealed}, 0, ${totp.createdAt}, null, ${mac}, ${macRootId})`)
    },

    /** Records the used time step and the confirmation; false if another request was faster. */
    advance: (totp: Totp, lastStep: number, confirmedAt: number) => save(totp, { lastStep, confirmedAt }),

    /** Also removes the recovery codes. */
    remove(userId: string): void {
      db.write(sql`delete from totp where user_id = ${userId}`)
    },

    insertRecoveryCodes(totp: Totp, codes: readonly string[]): void {
      db.writeMany(
        codes,
        (code) => sql`insert into recovery_code (totp_id, hash) values (${totp.id}, ${hashOf(totp, code)})`,
      )
    },

    /** True for exactly one of several concurrent callers. */
    async spendRecoveryCode(totp: Totp, code: string): Promise<boolean> {
      const hash = hashOf(totp, code)
      return (await db.count(sql`delete from recovery_code where totp_id = ${totp.id} and hash = ${hash}`)) === 1
    },

    async moveToActiveRoot(limit: number): Promise<number> {
      const active = keys.keyring.active
      const old = await db.all<TotpRow>(sql`
        select ${columns} from totp where mac_root_id <> ${active.id} order by mac_root_id limit ${limit}`)
      for (const row of old) {
        if (await rows.isGenuine(row)) await save(row, {})
        // A tampered row must not get a valid MAC, so it keeps its old MAC under the new root, which can never match.
        else db.write(sql`update totp set mac_root_id = ${active.id} where id = ${row.id} and mac = ${row.mac}`)
      }
      return old.length
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<TotpRow>(sql`select ${columns} from totp where id > ${after} order by id limit 500`),
      ),
  }
}
