/** Sessions of people, found by the keyed hash of their bearer value. A MAC binds the row to its user. */
import type { RootKey } from '../../crypto/keyring.ts'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { type Db, fragment, skipLocked, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

export type Session = {
  readonly id: string
  readonly userId: string
  readonly type: 'browser' | 'cli'
  readonly ip: string
  readonly userAgent: string
  readonly createdAt: number
  readonly lastSeenAt: number
  readonly expiresAt: number
}
type SessionRow = Session & RowMac & { readonly hash: Uint8Array; readonly hashRootId: string }

const columns = fragment(`
  id, user_id as "userId", type, hash, hash_root_id as "hashRootId", ip, user_agent as "userAgent",
  created_at as "createdAt", last_seen_at as "lastSeenAt", expires_at as "expiresAt", mac, mac_root_id as "macRootId"`)

type SessionFields = Omit<Session, 'ip' | 'userAgent' | 'lastSeenAt'> & { readonly hash: Uint8Array }

const macFields = (row: SessionFields): MacField[] => [
  row.id,
  row.userId,
  row.type,
  row.createdAt,
  row.expiresAt,
  row.hash,
]

export function sessionStore(db: Db, keys: Keys) {
  const rows = verifiedRows<SessionFields, SessionRow>(keys, 'session', macFields)

  async function genuine(row: SessionRow | undefined): Promise<Session | undefined> {
    if (!row || !(await rows.isGenuine(row))) return undefined
    const { hash: _hash, mac: _mac, macRootId: _root, hashRootId: _hashRoot, ...session } = row
    return session
  }

  async function findByHash(root: RootKey, value: string): Promise<Session | undefined> {
    const hash = hashBearer(root, value)
    return genuine(
      await db.one<SessionRow>(sql`
        select ${columns} from session where hash = ${hash}`),
    )
  }

  return {
    insert(session: Session, value: string): void {
      const root = keys.keyring.active
      const hash = hashBearer(root, value)
      const { mac, macRootId } = rows.sign({ ...session, hash })
      db.write(sql`
        insert into session (id, user_id, type, hash, hash_root_id, ip, user_agent, created_at, last_seen_at, expires_at,
          mac, mac_root_id)
        values (${session.id}, ${session.userId}, ${session.type}, ${hash}, ${root.id}, ${session.ip},
          ${session.userAgent}, ${session.createdAt}, ${session.lastSeenAt}, ${session.expiresAt}, ${mac}, ${macRootId})`)
    },

    async findByValue(value: string): Promise<(Session & { readonly isUnderOldRoot: boolean }) | undefined> {
      for (const root of keys.keyring.all) {
        const session = await findByHash(root, value)
        if (session) return { ...session, isUnderOldRoot: root !== keys.keyring.active }
      }
      return undefined
    },

    async exists(id: string, userId: string): Promise<boolean> {
      return (await db.one(sql`select id from session where id = ${id} and user_id = ${userId}`)) !== undefined
    },

    /** Where each member of a workspace opened the session that they used last, of those that are not over. */
    async listLastAddresses(workspaceId: string, nowMs: number): Promise<Map<string, string>> {
      const found = await db.all<{ userId: string; ip: string }>(sql`
        select user_id as "userId", ip from session
        where user_id in (select user_id from member where workspace_id = ${workspaceId}) and expires_at > ${nowMs}
          and ip <> ''
        order by last_seen_at, id`)
      return new Map(found.map(({ userId, ip }) => [userId, ip]))
    },

    /** Newest first. */
    async list(userId: string): Promise<Session[]> {
      const found = await db.all<SessionRow>(sql`
        select ${columns} from session where user_id = ${userId} order by created_at desc, id desc`)
      const sessions = await Promise.all(found.map(genuine))
      return sessions.flatMap((session) => session ?? [])
    },

    /**
     * Hashes the value with the active root, so that the old root can be removed. Only possible while the value is at
     * hand.
     */
    rehash(session: Session, value: string): void {
      const root = keys.keyring.active
      const hash = hashBearer(root, value)
      const { mac, macRootId } = rows.sign({ ...session, hash })
      db.write(sql`
        update session set hash = ${hash}, hash_root_id = ${root.id}, mac = ${mac}, mac_root_id = ${macRootId}
        where id = ${session.id} and user_id = ${session.userId}`)
    },

    touch(id: string, userId: string, seenAt: number): void {
      db.write(sql`
        update session set last_seen_at = ${seenAt}
        where id = (
          select id from session where id = ${id} and user_id = ${userId} and last_seen_at < ${seenAt} ${skipLocked})`)
    },

    async remove(id: string, userId: string): Promise<boolean> {
      return (await db.count(sql`delete from session where id = ${id} and user_id = ${userId}`)) === 1
    },

    /** Removes all sessions of a person except one; returns their number. */
    async removeOthers(userId: string, keptId: string): Promise<number> {
      return db.count(sql`delete from session where user_id = ${userId} and id <> ${keptId}`)
    },

    async removeExpired(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from session where id in (select id from session where expires_at <= ${nowMs} limit ${limit})`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<SessionRow>(sql`
        select ${columns} from session where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update session set mac = ${mac}, mac_root_id = ${macRootId} where id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<SessionRow>(sql`select ${columns} from session where id > ${after} order by id limit 500`),
      ),
  }
}
