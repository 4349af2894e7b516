/**
 * Device logins that wait for a person's approval. Found by the keyed hashes of their two codes; a MAC covers the
 * request.
 */
import { createHmac } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import type { RootKey } from '../../crypto/keyring.ts'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

export type DeviceLogin = {
  readonly id: string
  readonly clientId: string
  /** Address of the device that asked. */
  readonly ip: string
  readonly userAgent: string
  readonly state: 'pending' | 'approved' | 'denied'
  /** The person who approved or denied. */
  readonly userId: string | null
  /** The session that gave the approval. */
  readonly sessionId: string | null
  readonly createdAt: number
  readonly expiresAt: number
}
type DeviceRow = DeviceLogin & RowMac & { readonly deviceHash: Uint8Array; readonly userHash: Uint8Array }

const columns = fragment(`
  id, device_hash as "deviceHash", user_hash as "userHash", client_id as "clientId", ip, user_agent as "userAgent",
  state, user_id as "userId", session_id as "sessionId", created_at as "createdAt", expires_at as "expiresAt", mac, mac_root_id as "macRootId"`)

const macFields = (row: Omit<DeviceRow, keyof RowMac>): MacField[] => [
  row.id,
  row.deviceHash,
  row.userHash,
  row.clientId,
  row.ip,
  row.userAgent,
  row.state,
  row.userId,
  row.createdAt,
  row.expiresAt,
  // Older rows were signed before approvals recorded a session.
  ...(row.sessionId === null ? [] : [row.sessionId]),
]

const hashOf = (root: RootKey, kind: 'device-code' | 'user-code', code: string) =>
  createHmac('sha256', root.token)
    .update(lengthPrefixed([kind, code]))
    .digest()

export function deviceStore(db: Db, keys: Keys) {
  const rows = verifiedRows<Omit<DeviceRow, keyof RowMac>, DeviceRow>(keys, 'device_login', macFields)

  async function findRow(kind: 'device-code' | 'user-code', code: string): Promise<DeviceRow | undefined> {
    for (const root of keys.keyring.all) {
      const hash = hashOf(root, kind, code)
      const row =
        kind === 'device-code'
          ? await db.one<DeviceRow>(sql`select ${columns} from device_login where device_hash = ${hash}`)
          : await db.one<DeviceRow>(sql`select ${columns} from device_login where user_hash = ${hash}`)
      if (row && (await rows.isGenuine(row))) return row
    }
    return undefined
  }

  function toLogin(row: DeviceRow | undefined): DeviceLogin | undefined {
    if (!row) return undefined
    const { deviceHash: _device, userHash: _user, mac: _mac, macRootId: _root, ...login } = row
    return login
  }

  return {
    findByDeviceCode: async (code: string) => toLogin(await findRow('device-code', code)),

    findByUserCode: async (code: string) => toLogin(await findRow('user-code', code)),

    /** False if one of the codes is taken. */
    async insert(login: DeviceLogin, codes: { device: string; user: string }): Promise<boolean> {
      const root = keys.keyring.active
      const deviceHash = hashOf(root, 'device-code', codes.device)
      const userHash = hashOf(root, 'user-code', codes.user)
      const { mac, macRootId } = rows.sign({ ...login, deviceHash, userHash })
      const changed = await db.count(sql`
        insert into device_login (id, device_hash, user_hash, hash_root_id, client_id, ip, user_agent, state, user_id,
          created_at, expires_at, mac, mac_root_id)
        values (${login.id}, ${deviceHash}, ${userHash}, ${root.id}, ${login.clientId}, ${login.ip}, ${login.userAgent},
          ${login.state}, ${login.userId}, ${login.createdAt}, ${login.expiresAt}, ${mac}, ${macRootId})
        on conflict do nothing`)
      return changed === 1
    },

    /** Unanswered logins, oldest first. */
    async listWaiting(nowMs: number): Promise<Pick<DeviceLogin, 'id' | 'ip' | 'expiresAt'>[]> {
      return db.all(sql`
        select id, ip, expires_at as "expiresAt" from device_login
        where state = 'pending' and expires_at > ${nowMs} order by expires_at, id`)
    },

    removeWaiting(id: string): void {
      db.write(sql`delete from device_login where id = ${id} and state = 'pending'`)
    },

    /** Records a poll; false if the last one was after `beforeMs`. */
    async poll(id: string, nowMs: number, beforeMs: number): Promise<boolean> {
      const changed = await db.count(sql`
        update device_login set last_polled_at = ${nowMs}
        where id = ${id} and (last_polled_at is null or last_polled_at <= ${beforeMs})`)
      return changed === 1
    },

    /** Stores a person's answer; false if the login was already answered or is gone. */
    async answer(code: string, answer: Pick<DeviceLogin, 'state' | 'userId' | 'sessionId'>): Promise<boolean> {
      const row = await findRow('user-code', code)
      if (row?.state !== 'pending') return false
      const { mac, macRootId } = rows.sign({ ...row, ...answer })
      const changed = await db.count(sql`
        update device_login set state = ${answer.state}, user_id = ${answer.userId}, session_id = ${answer.sessionId},
          mac = ${mac}, mac_root_id = ${macRootId}
        where id = ${row.id} and state = 'pending' and mac = ${row.mac}`)
      return changed === 1
    },

    /** True for exactly one of several concurrent callers, and only while the approving session exists. */
    async collect({ id, userId, sessionId }: DeviceLogin, nowMs: number): Promise<boolean> {
      const changed = await db.count(sql`
        delete from device_login where id = ${id} and user_id = ${userId} and state = 'approved'
          and session_id in (
            select id from session where id = ${sessionId} and user_id = ${userId} and expires_at > ${nowMs})`)
      return changed === 1
    },

    /** Removes logins that this person answered and no device has collected yet. */
    async removeApproved(userId: string): Promise<number> {
      return db.count(sql`delete from device_login where user_id = ${userId}`)
    },

    async removeExpired(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from device_login where id in (select id from device_login where expires_at <= ${nowMs} limit ${limit})`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<DeviceRow>(sql`
        select ${columns} from device_login where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update device_login set mac = ${mac}, mac_root_id = ${macRootId} where id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<DeviceRow>(sql`select ${columns} from device_login where id > ${after} order by id limit 500`),
      ),
  }
}
