/** Invites, found by the keyed hash of their token. The row becomes a membership, so a MAC protects it. */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { type Db, forUpdate, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'
import { fromGrantColumns, furtherGrantsField, type GrantColumns, type Grants, toGrantColumns } from './grant.ts'

/** State of the mail to the invited person; `off` if no mail server is configured. */
export type MailState = 'off' | 'sending' | 'sent' | 'failed'

export type Invite = {
  readonly id: string
  readonly workspaceId: string
  readonly email: string
  readonly grants: Grants
  /** Null after a decline: the token ends before the invite. */
  readonly hash: Uint8Array | null
  readonly hashRootId: string | null
  /** Hash of the token that was only mailed, under the same root key; null if no mail server was configured. */
  readonly mailedHash: Uint8Array | null
  /** Who holds the link: they sent the invite last. Null for one from before this was recorded; no MAC covers it. */
  readonly invitedBy: string | null
  readonly createdAt: number
  readonly expiresAt: number
  readonly declinedAt: number | null
  readonly mail: MailState
  /** When the latest mail was composed. */
  readonly mailAt: number
}
/** The token of an open invite is accepted. */
export function isOpen<Found extends Invite>(invite: Found, nowMs: number): invite is Found & { hash: Uint8Array } {
  return invite.hash !== null && invite.expiresAt > nowMs
}

type InviteRow = Omit<Invite, 'grants'> & GrantColumns & RowMac

const columns = fragment(`
  id, workspace_id as "workspaceId", email, role, scope, grants, hash, hash_root_id as "hashRootId",
  mailed_hash as "mailedHash", invited_by as "invitedBy", created_at as "createdAt",
  expires_at as "expiresAt", declined_at as "declinedAt", mail, mail_at as "mailAt", mac, mac_root_id as "macRootId"`)

type InviteFields = Omit<InviteRow, keyof RowMac>

const macFields = (row: InviteFields): MacField[] => [
  row.id,
  row.workspaceId,
  row.email,
  row.role,
  row.scope,
  row.hash,
  row.createdAt,
  row.expiresAt,
  row.declinedAt,
  // Older invites were signed before this field existed.
  ...(row.mailedHash === null ? [] : [row.mailedHash]),
  ...furtherGrantsField(row),
]

export function inviteStore(db: Db, keys: Keys) {
  const rows = verifiedRows<InviteFields, InviteRow>(keys, 'invite', macFields)

  function toRow(invite: Invite): InviteRow {
    const row = { ...invite, ...toGrantColumns(invite.grants) }
    return { ...row, ...rows.sign(row) }
  }

  async function genuine(row: InviteRow | undefined): Promise<Invite | undefined> {
    if (!row || !(await rows.isGenuine(row))) return undefined
    const { mac: _mac, macRootId: _root, role: _role, scope: _scope, ...invite } = row
    return { ...invite, grants: fromGrantColumns(row) }
  }

  return {
    /** Rows with a bad MAC grant nothing and are skipped. */
    async list(workspaceId: string): Promise<Invite[]> {
      const stored = await db.all<InviteRow>(sql`
        select ${columns} from invite where workspace_id = ${workspaceId} order by id`)
      const invites: Invite[] = []
      for (const row of stored) {
        const invite = await genuine(row)
        if (invite) invites.push(invite)
      }
      return invites
    },

    async find(id: string, workspaceId: string): Promise<Invite | undefined> {
      return genuine(
        await db.one<InviteRow>(sql`
          select ${columns} from invite where id = ${id} and workspace_id = ${workspaceId}`),
      )
    },

    /** Accepts either token of the invite. */
    async findByValue(value: string): Promise<(Invite & { readonly isMailed: boolean }) | undefined> {
      for (const root of keys.keyring.all) {
        const hash = hashBearer(root, value)
        const row = await db.one<InviteRow>(sql`
          select ${columns} from invite where hash = ${hash} or mailed_hash = ${hash}`)
        const invite = await genuine(row)
        if (invite) return { ...invite, isMailed: invite.mailedHash !== null && hash.equals(invite.mailedHash) }
      }
      return undefined
    },

    /** Returns the id of the existing invite if the address is already invited. */
    async insert(invite: Invite): Promise<string | undefined> {
      const row = toRow(invite)
      const changed = await db.count(sql`
        insert into invite (id, workspace_id, email, role, scope, grants, hash, hash_root_id, mailed_hash, invited_by, created_at,
          expires_at, mail, mail_at, mac, mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.email}, ${row.role}, ${row.scope}, ${row.grants}, ${row.hash}, ${row.hashRootId},
          ${row.mailedHash}, ${row.invitedBy}, ${row.createdAt}, ${row.expiresAt}, ${row.mail}, ${row.mailAt}, ${row.mac}, ${row.macRootId})
        on conflict (workspace_id, email) do nothing`)
      if (changed === 1) return undefined
      const taken = await db.one<{ id: string }>(sql`
        select id from invite where workspace_id = ${row.workspaceId} and email = ${row.email}`)
      return taken?.id
    },

    /** The mail state may have changed since the invite was read, so it is overwritten only for a new mail. */
    update(invite: Invite): void {
      const row = toRow(invite)
      db.write(sql`
        update invite set role = ${row.role}, scope = ${row.scope}, grants = ${row.grants}, hash = ${row.hash}, hash_root_id = ${row.hashRootId},
          mailed_hash = ${row.mailedHash}, invited_by = ${row.invitedBy}, expires_at = ${row.expiresAt}, declined_at = ${row.declinedAt},
          mail = case when mail_at = ${row.mailAt} then mail else ${row.mail} end, mail_at = ${row.mailAt},
          mac = ${row.mac}, mac_root_id = ${row.macRootId}
        where id = ${row.id} and workspace_id = ${row.workspaceId}`)
    },

    async remove(id: string, workspaceId: string): Promise<boolean> {
      return (await db.count(sql`delete from invite where id = ${id} and workspace_id = ${workspaceId}`)) === 1
    },

    /** Updates only the mail of that time: a newer one may already be on its way. */
    noteMail(invite: Invite, mail: MailState): void {
      db.write(sql`
        update invite set mail = ${mail}
        where id = ${invite.id} and workspace_id = ${invite.workspaceId} and mail_at = ${invite.mailAt}`)
    },

    /** An expired invite is never accepted. Dropping its hash lets the old root key be removed. */
    async forgetEndedHashes(nowMs: number, limit: number): Promise<number> {
      const old = await db.all<InviteRow>(sql`
        select ${columns} from invite
        where hash_root_id in (select id from root_key where is_active = 0) and expires_at <= ${nowMs}
        order by id limit ${limit} ${forUpdate}`)
      for (const row of old) {
        // A tampered row must not get a valid MAC.
        const signed = (await rows.isGenuine(row)) ? rows.sign({ ...row, hash: null, mailedHash: null }) : row
        db.write(sql`
          update invite set hash = null, hash_root_id = null, mailed_hash = null, mac = ${signed.mac}, mac_root_id = ${signed.macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`)
      }
      return old.length
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<InviteRow>(sql`
        select ${columns} from invite where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update invite set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<InviteRow>(sql`select ${columns} from invite where id > ${after} order by id limit 500`),
      ),
  }
}
