/**
 * One small SQL layer for two engines. A query is a tagged template, compiled and prepared once per engine and keyed by
 * its template object. SQL is portable (text, bigint and bytea columns, `returning`, `on conflict`); the engines differ
 * only in the fragments below.
 */
import type { Failure } from '../../failure.ts'
import type { ShapeReader, TableReader } from './table-reader.ts'

export type SqlValue = string | number | null | Uint8Array | List | Fragment
export type List = { readonly list: readonly string[] }
type Fragment = { readonly sqlite: string; readonly postgres: string }
export type Sql = { readonly strings: TemplateStringsArray; readonly values: readonly SqlValue[] }

export function sql(strings: TemplateStringsArray, ...values: SqlValue[]): Sql {
  return { strings, values }
}

/** `where id ${anyOf(ids)}`: one parameter for a list of any length. */
export function anyOf(list: readonly string[]): List {
  return { list }
}

/** SQL text shared by several queries, such as a list of columns. */
export function fragment(text: string): Fragment {
  return { sqlite: text, postgres: text }
}

/** Locks the selected rows until the transaction ends. SQLite has only one writer anyway. */
export const forUpdate: Fragment = { sqlite: '', postgres: 'for update' }
/** Skips rows that another node has locked. */
export const skipLocked: Fragment = { sqlite: '', postgres: 'for update skip locked' }

export type Db = {
  one<Row>(query: Sql): Promise<Row | undefined>
  all<Row>(query: Sql): Promise<Row[]>
  /** Returns the number of changed rows. */
  run(query: Sql): Promise<number>
  /**
   * Runs one insert for many rows, in as few round trips as the engine allows. The template has one `values (…)` group.
   */
  runMany<Row>(rows: readonly Row[], query: (row: Row) => Sql): Promise<void>
}

/**
 * State of one transaction. Transactions that share a commit share this object; if one fails, its additions to
 * `scratch`, `beforeCommit` and `afterCommit` are undone.
 */
export type Transaction = {
  readonly db: Db
  /** The rows that were locked at the start; empty if the engine has only one writer. */
  readonly locked: readonly unknown[]
  /**
   * Takes the promise of a call of `db` that the rest of the transaction need not wait for: only the commit does. All
   * statements of the promise must be sent already.
   */
  later(sent: Promise<unknown>): void
  scratch: Map<string, unknown>
  /**
   * Runs once before the commit, even if several transactions register the same name. Must send its only statement
   * before it returns, because the commit may follow at once.
   */
  beforeCommit: Map<string, () => Promise<void>>
  /** Runs after the commit and before any caller learns of it. */
  afterCommit: (() => void)[]
  /** Runs after `afterCommit`, or after the rollback; a savepoint that is rolled back does not remove its entries. */
  readonly afterEnd: (() => void)[]
}

/**
 * One piece of work for callers that ask for the same thing at the same moment; each gets a result of its own. If it
 * throws, it is repeated for each caller alone.
 */
export type JointWork<Item, Result> = (
  transaction: Transaction,
  items: readonly Item[],
) => Promise<PromiseSettledResult<Result>[]>

/** Copies of the store from before a migration, to go back to an older version. */
export type MigrationSnapshots = {
  /** Returns the path. Undefined if an interrupted migration has made it already, or the store was never started. */
  make(step: number): Promise<string | undefined>
  /** Call once all steps are applied: the next migration makes a snapshot of its own. */
  finish(): Promise<void>
  /** The newest snapshot that a version with this many steps can open, and when the store was upgraded from there. */
  find(maxSteps: number): { readonly path: string; readonly leftAt: number } | undefined
}

export type Engine = Db & {
  readonly kind: 'sqlite' | 'postgres'
  /**
   * All or nothing, acknowledged after a durable commit. Transactions with the same `lock` run one after another on
   * this node and may share a commit; nothing slow may happen in `work`. `rows` locks rows against other nodes, and is the
   * same for the same lock. It runs first, so that work which arrives meanwhile joins the commit.
   */
  transaction<Result>(lock: string, work: (transaction: Transaction) => Promise<Result>, rows?: Sql): Promise<Result>
  /** Like `transaction`, but runs together with all waiting items of the same group and work. */
  joinTransaction<Item, Result>(
    lock: string,
    group: string,
    item: Item,
    work: JointWork<Item, Result>,
    rows?: Sql,
  ): Promise<Result>
  /** Called when the storage fails to commit; not called when the work itself fails. */
  onRefusal(listener: (error: Failure) => void): void
  /** Throws an Error with one sentence if a commit would not survive a power failure. */
  checkDurability(): Promise<void>
  /** Describes how file damage is detected; throws if damage is found. */
  checkFiles(): Promise<string>
  /** Runs one migration statement and its bookkeeping in one transaction. Step 1 also creates the bookkeeping table. */
  migrateStep(step: number, name: string, statement: string, nowMs: number): Promise<void>
  /** The highest migration step ever applied, or 0. Does not write to an empty database. */
  migratedSteps(): Promise<number>
  /** Undefined if the operator takes the backup before an upgrade. */
  readonly snapshots?: MigrationSnapshots
  /** Shapes of the tables as they are now. */
  readonly shapes: ShapeReader
  /**
   * Reads one consistent state of the named tables, for as long as that takes and without delaying anybody but a
   * migration.
   */
  readTables<Result>(names: readonly string[], work: (reader: TableReader) => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

export type Compiled = { readonly text: string; readonly kinds: readonly ('value' | 'list' | 'fragment')[] }

/**
 * Compiles with the engine's placeholders; the result is valid for the life of the template object. With `singleItems`,
 * lists of one item become a plain comparison, which is several times faster in SQLite.
 */
export function compile(query: Sql, engine: keyof Fragment, singleItems = false): Compiled {
  const kinds: Compiled['kinds'][number][] = []
  let text = query.strings[0] ?? ''
  let position = 0
  query.values.forEach((value, index) => {
    if (isFragment(value)) {
      kinds.push('fragment')
      text += value[engine]
    } else {
      position++
      const placeholder = engine === 'sqlite' ? '?' : `$${position}`
      kinds.push(isList(value) ? 'list' : 'value')
      if (!isList(value)) text += placeholder
      else if (singleItems) text += '= ?'
      else text += engine === 'sqlite' ? `in (select value from json_each(?))` : `= any(${placeholder}::text[])`
    }
    text += query.strings[index + 1] ?? ''
  })
  return { text, kinds }
}

export function parameters(
  query: Sql,
  compiled: Compiled,
  encodeList: (list: readonly string[]) => readonly unknown[],
): unknown[] {
  const result: unknown[] = []
  query.values.forEach((value, index) => {
    const kind = compiled.kinds[index]
    if (kind === 'list' && isList(value)) result.push(...encodeList(value.list))
    else if (kind === 'value') result.push(value)
  })
  return result
}

export const hasSingleItems = ({ values }: Sql): boolean =>
  values.every((value) => !isList(value) || value.list.length === 1)

function isList(value: SqlValue): value is List {
  return typeof value === 'object' && value !== null && 'list' in value
}

function isFragment(value: SqlValue): value is Fragment {
  return typeof value === 'object' && value !== null && 'sqlite' in value
}
