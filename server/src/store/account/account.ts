/** People. The MAC exposes a password hash or an address that was replaced directly in the database. */
import type { Preferences } from '@coffer/contract/me'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

export type Account = {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly passwordHash: string
  readonly preferences: Preferences
  readonly createdAt: number
  /** The second factor that a login needs. Covered by the MAC, so deleting the factor's row does not switch it off. */
  readonly totpId: string | null
  /** When the person proved that they receive mail at the address; null if never. */
  readonly emailVerifiedAt: number | null
}
/** What a person has proven about their account. */
export type AccountProofs = { readonly emailVerified: boolean; readonly secondFactorId: string | null }

export const proofsOf = (account: Pick<Account, 'emailVerifiedAt' | 'totpId'>): AccountProofs => ({
  emailVerified: account.emailVerifiedAt !== null,
  secondFactorId: account.totpId,
})

/** A new account has no second factor yet. */
export type NewAccount = Omit<Account, 'totpId'>
export type ListedAccount = Pick<Account, 'id' | 'email' | 'createdAt'> & {
  readonly hasSecondFactor: boolean
  /** Slugs of workspaces. */
  readonly owned: readonly string[]
}
type AccountRow = Omit<Account, 'preferences'> & RowMac & { readonly preferences: string }

const columns = fragment(`
  id, email, name, password_hash as "passwordHash", preferences, created_at as "createdAt", totp_id as "totpId",
  email_verified_at as "emailVerifiedAt", mac, mac_root_id as "macRootId"`)

type AccountFields = Omit<Account, 'preferences' | 'name'>

const macFields = (account: AccountFields): MacField[] => [
  account.id,
  account.email,
  account.passwordHash,
  account.createdAt,
  // Older accounts were signed before these fields existed.
  ...(account.emailVerifiedAt === null
    ? account.totpId === null
      ? []
      : [account.totpId]
    : [account.totpId, account.emailVerifiedAt]),
]

export function accountStore(db: Db, keys: Keys) {
  const rows = verifiedRows<AccountFields, AccountRow>(keys, 'account', macFields)

  const findRow = (id: string) => db.one<AccountRow>(sql`select ${columns} from account where id = ${id}`)

  async function genuine(row: AccountRow | undefined): Promise<Account | undefined> {
    if (!row) return undefined
    if (!(await rows.isGenuine(row))) throw new Failure('integrity')
    return { ...row, preferences: JSON.parse(row.preferences) }
  }

  return {
    async count(): Promise<number> {
      const row = await db.one<{ count: number }>(sql`select count(*) as count from (select id from account limit 1) a`)
      return row?.count ?? 0
    },

    async find(id: string): Promise<Account | undefined> {
      return genuine(await findRow(id))
    },

    async findByEmail(email: string): Promise<Account | undefined> {
      return genuine(
        await db.one<AccountRow>(sql`
          select ${columns} from account where email = ${email}`),
      )
    },

    /** An unknown account, or a row with a bad MAC, has proven nothing. */
    async findProofs(id: string): Promise<AccountProofs> {
      const row = await findRow(id)
      return row && (await rows.isGenuine(row)) ? proofsOf(row) : { emailVerified: false, secondFactorId: null }
    },

    /** All members of a workspace. Rows with a bad MAC are skipped, so that the others can still be listed. */
    async listOfWorkspace(workspaceId: string): Promise<Account[]> {
      const stored = await db.all<AccountRow>(sql`
        select ${columns} from account where id in (select user_id from member where workspace_id = ${workspaceId})`)
      const accounts: Account[] = []
      for (const row of stored) {
        if (await rows.isGenuine(row)) accounts.push({ ...row, preferences: JSON.parse(row.preferences) })
      }
      return accounts
    },

    /** A page of all accounts, by address, with the slugs of the workspaces that each owns. */
    async listAfter(email: string, limit: number): Promise<ListedAccount[]> {
      const found = await db.all<Omit<ListedAccount, 'owned' | 'hasSecondFactor'> & { readonly totpId: string | null }>(
        sql`
          select id, email, created_at as "createdAt", totp_id as "totpId" from account
          where email > ${email} order by email limit ${limit}`,
      )
      if (found.length === 0) return []
      const owned = await db.all<{ userId: string; slug: string }>(sql`
        select m.user_id as "userId", w.slug from member m join workspace w on w.id = m.workspace_id
        where m.is_owner = 1 and m.user_id ${anyOf(found.map(({ id }) => id))} order by w.slug`)
      return found.map(({ totpId, ...account }) => ({
        ...account,
        hasSecondFactor: totpId !== null,
        owned: owned.filter(({ userId }) => userId === account.id).map(({ slug }) => slug),
      }))
    },

    /** Addresses by account id. */
    async listAddressesOf(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
      if (ids.length === 0) return new Map()
      const found = await db.all<{ id: string; email: string }>(sql`
        select id, email from account where id ${anyOf(ids)}`)
      return new Map(found.map(({ id, email }) => [id, email]))
    },

    async listAddresses(workspaceId: string): Promise<string[]> {
      const found = await db.all<{ email: string }>(sql`
        select email from account where id in (select user_id from member where workspace_id = ${workspaceId})`)
      return found.map(({ email }) => email)
    },

    /** False if the address is taken. */
    async insert(account: NewAccount): Promise<boolean> {
      const { mac, macRootId } = rows.sign({ ...account, totpId: null })
      const changed = await db.count(sql`
        insert into account (id, email, name, password_hash, preferences, created_at, updated_at, email_verified_at, mac,
          mac_root_id)
        values (${account.id}, ${account.email}, ${account.name}, ${account.passwordHash},
          ${JSON.stringify(account.preferences)}, ${account.createdAt}, ${account.createdAt}, ${account.emailVerifiedAt},
          ${mac}, ${macRootId})
        on conflict (email) do nothing`)
      return changed === 1
    },

    /** Call in a transaction that has read the account under the lock of the system's audit chain. */
    update(account: Account, nowMs: number): void {
      const { mac, macRootId } = rows.sign(account)
      db.write(sql`
        update account set email = ${account.email}, name = ${account.name}, password_hash = ${account.passwordHash},
          preferences = ${JSON.stringify(account.preferences)}, totp_id = ${account.totpId},
          email_verified_at = ${account.emailVerifiedAt}, updated_at = ${nowMs},
          mac = ${mac}, mac_root_id = ${macRootId}
        where id = ${account.id}`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<AccountRow>(sql`
        select ${columns} from account where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update account set mac = ${mac}, mac_root_id = ${macRootId} where id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<AccountRow>(sql`select ${columns} from account where id > ${after} order by id limit 500`),
      ),
  }
}
