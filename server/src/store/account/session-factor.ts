/** The second factor that a session was opened with. A session without a row here was opened with one factor. */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

type FactorFields = {
  /** Id of the session. */
  readonly id: string
  readonly userId: string
  readonly factorId: string
}
type FactorRow = FactorFields & RowMac

const columns = fragment(`id, user_id as "userId", factor_id as "factorId", mac, mac_root_id as "macRootId"`)

const macFields = (row: FactorFields): MacField[] => [row.id, row.userId, row.factorId]

export function sessionFactorStore(db: Db, keys: Keys) {
  const rows = verifiedRows<FactorFields, FactorRow>(keys, 'session_factor', macFields)

  return {
    /** A row with a bad MAC proves nothing. */
    async find(sessionId: string, userId: string): Promise<string | null> {
      const row = await db.one<FactorRow>(sql`
        select ${columns} from session_factor where id = ${sessionId} and user_id = ${userId}`)
      return row && (await rows.isGenuine(row)) ? row.factorId : null
    },

    save(sessionId: string, userId: string, factorId: string): void {
      const { mac, macRootId } = rows.sign({ id: sessionId, userId, factorId })
      db.write(sql`
        insert into session_factor (id, user_id, factor_id, mac, mac_root_id)
        values (${sessionId}, ${userId}, ${factorId}, ${mac}, ${macRootId})
        on conflict (id) do update set factor_id = ${factorId}, mac = ${mac}, mac_root_id = ${macRootId}`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<FactorRow>(sql`
        select ${columns} from session_factor
        where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update session_factor set mac = ${mac}, mac_root_id = ${macRootId} where id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<FactorRow>(sql`select ${columns} from session_factor where id > ${after} order by id limit 500`),
      ),
  }
}
