/**
 * The set of rows that grant rights in a workspace (`crypto/row-set.ts`). Every write of such a row changes its set in
 * the same transaction. Sets count from `upgrade finish` on; until then a node of the version before may write rows.
 */
import { addRow, emptyRowSet, openRowSet, type RowSet, removeRow, type SetRow, sealRowSet } from '../crypto/row-set.ts'
import { isFailure } from '../failure.ts'
import { type Db, forUpdate, fragment, sql } from './engine/sql.ts'
import type { Keys } from './key/key.ts'
import type { Moved } from './signed-row.ts'

/** `access`: members, service accounts and policy, as the workspace snapshot holds them. */
export type RowSetKind = 'access' | 'token' | 'identity'
export const rowSetKinds: readonly RowSetKind[] = ['access', 'token', 'identity']

const kinds = {
  member: 'access',
  service_account: 'access',
  workspace_policy: 'access',
  token: 'token',
  oidc_identity: 'identity',
} as const satisfies Record<string, RowSetKind>
type SetTable = keyof typeof kinds

export type SetChange = {
  readonly workspaceId: string
  readonly table: SetTable
  readonly id: string
  /** MAC of the row before the change; undefined for a new row. */
  readonly before?: Uint8Array | undefined
  /** Undefined for a removed row. */
  readonly after?: Uint8Array | undefined
}
/** Takes the rows of a table as they are loaded. */
export type AddRows = (table: SetTable, rows: readonly SetRow[]) => void

type Place = { readonly workspaceId: string; readonly kind: RowSetKind }
type SealedRow = Place & { readonly sealed: Uint8Array; readonly rootId: string }

const columns = fragment(`workspace_id as "workspaceId", kind, sealed, root_id as "rootId"`)
const pageSize = 1_000
/** Every further load means that the set was changed during the last one. */
const maxLoads = 20

export function rowSetStore(db: Db, keys: Keys) {
  const find = ({ workspaceId, kind }: Place) =>
    db.one<SealedRow>(sql`select ${columns} from row_set where workspace_id = ${workspaceId} and kind = ${kind}`)

  const findForChange = ({ workspaceId, kind }: Place) =>
    db.one<SealedRow>(sql`
      select ${columns} from row_set where workspace_id = ${workspaceId} and kind = ${kind} ${forUpdate}`)

  /** Undefined if the record was changed outside of Coffer. */
  async function opened(row: SealedRow): Promise<RowSet | undefined> {
    try {
      return openRowSet(await keys.requireRoot(row.rootId), row, row.sealed)
    } catch (error) {
      if (isFailure(error, 'integrity')) return undefined
      throw error
    }
  }

  function save(place: Place, set: RowSet): void {
    const root = keys.keyring.active
    db.write(sql`
      update row_set set sealed = ${sealRowSet(root, place, set)}, root_id = ${root.id}
      where workspace_id = ${place.workspaceId} and kind = ${place.kind}`)
  }

  /** Also for a workspace that a node of the version before has made. */
  function insert(workspaceId: string): void {
    const root = keys.keyring.active
    for (const kind of rowSetKinds) {
      const sealed = sealRowSet(root, { workspaceId, kind }, emptyRowSet())
      db.write(sql`
        insert into row_set (workspace_id, kind, sealed, root_id) values (${workspaceId}, ${kind}, ${sealed}, ${root.id})
        on conflict (workspace_id, kind) do nothing`)
    }
  }

  /** Pages in the order of ids, for sets of which only the sum is needed. */
  async function eachRow({ workspaceId, kind }: Place, add: AddRows): Promise<void> {
    if (kind === 'access') {
      const rows = await db.all<SetRow & { table: SetTable }>(sql`
        select 'member' as "table", id, mac from member where workspace_id = ${workspaceId}
        union all select 'service_account', id, mac from service_account where workspace_id = ${workspaceId}
        union all select 'workspace_policy', workspace_id, mac from workspace_policy where workspace_id = ${workspaceId}`)
      for (const row of rows) add(row.table, [row])
      return
    }
    const table = kind === 'token' ? 'token' : 'oidc_identity'
    let page: SetRow[]
    let after = ''
    do {
      page = await db.all<SetRow>(
        kind === 'token'
          ? sql`
              select id, mac from token where workspace_id = ${workspaceId} and id > ${after} order by id limit ${pageSize}`
          : sql`
              select id, mac from oidc_identity where workspace_id = ${workspaceId} and id > ${after}
              order by id limit ${pageSize}`,
      )
      add(table, page)
      after = page.at(-1)?.id ?? after
    } while (page.length === pageSize)
  }

  /** Loads rows of a set, and says whether they are all of it and nothing else. */
  async function load<Loaded>(
    place: Place,
    work: (add: AddRows) => Promise<Loaded>,
  ): Promise<{ loaded: Loaded; isWhole: boolean }> {
    if (!keys.isFinished('row-set')) return { loaded: await work(() => undefined), isWhole: true }
    for (let left = maxLoads; ; left--) {
      const row = await find(place)
      const stored = row && (await opened(row))
      let set = stored && { ...stored, sum: 0n }
      const loaded = await work((table, rows) => {
        for (const one of rows) set = set && addRow(set, table, one)
      })
      if (stored && set?.sum === stored.sum) return { loaded, isWhole: true }
      // A commit between the two reads has changed rows and record: both are read again.
      if (left === 1 || isSame(row, await find(place))) return { loaded, isWhole: false }
    }
  }

  /**
   * Call after the rows were written, so that sets are always locked after rows, and in one order: transactions of other
   * nodes cannot deadlock.
   */
  async function change(changes: readonly SetChange[]): Promise<void> {
    const bySet = Map.groupBy(changes, ({ workspaceId, table }) => `${workspaceId} ${kinds[table]}`)
    for (const [, group] of [...bySet].sort(([one], [other]) => (one < other ? -1 : 1))) {
      const [first] = group
      const row = first && (await findForChange({ workspaceId: first.workspaceId, kind: kinds[first.table] }))
      let set = row && (await opened(row))
      // A set that is missing or changed stays so: this write must not confirm it.
      if (!row || !set) continue
      for (const { table, id, before, after } of group) {
        if (before) set = removeRow(set, table, { id, mac: before })
        if (after) set = addRow(set, table, { id, mac: after })
      }
      await save(row, set)
    }
  }

  return {
    insert,
    load,
    change,

    /** For rows of a table that were signed again. A policy has the id of its workspace. */
    replace: (table: SetTable, moved: readonly Moved<SetRow & { readonly workspaceId?: string }>[]): Promise<void> =>
      change(
        moved.map(({ row, mac }) => ({
          workspaceId: row.workspaceId ?? row.id,
          table,
          id: row.id,
          before: row.mac,
          after: mac,
        })),
      ),

    isWhole: async (place: Place): Promise<boolean> => (await load(place, (add) => eachRow(place, add))).isWhole,

    /** Takes the rows as they are for right. Returns their number. */
    async adopt(place: Place): Promise<number> {
      // Locked before the rows are read: a write that waits for this lock is added to the new sum afterwards.
      await findForChange(place)
      let set = emptyRowSet()
      let count = 0
      await eachRow(place, (table, rows) => {
        for (const row of rows) set = addRow(set, table, row)
        count += rows.length
      })
      await save(place, set)
      return count
    },

    /** Seals a batch of sets under the active root. */
    async moveToActiveRoot(limit: number): Promise<number> {
      const active = keys.keyring.active
      const old = await db.all<SealedRow>(sql`
        select ${columns} from row_set where root_id <> ${active.id}
        order by root_id, workspace_id, kind limit ${limit} ${forUpdate}`)
      for (const row of old) {
        const set = await opened(row)
        if (set) await save(row, set)
        // A changed record must not become valid: under another root it never opens.
        else {
          db.write(sql`
            update row_set set root_id = ${active.id} where workspace_id = ${row.workspaceId} and kind = ${row.kind}`)
        }
      }
      return old.length
    },
  }
}

const isSame = (one: SealedRow | undefined, other: SealedRow | undefined): boolean =>
  one === undefined || other === undefined ? one === other : Buffer.compare(one.sealed, other.sealed) === 0
