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

/** Questions: statements whose answers are awaited. */
export type Reader = {
  one<Row>(query: Sql): Promise<Row | undefined>
  all<Row>(query: Sql): Promise<Row[]>
}

/** Additions to a transaction. Nobody waits for them: the engine sends them before the next question, or with the commit. */
export type Writer = {
  /** Of several additions with one `key`, only the last is sent when those of several jobs are merged. */
  write(query: Sql, key?: string): void
  /**
   * One statement for many rows, in as few round trips as the engine allows: an insert with one `values (…)` group, or an
   * update `from (values (…)) as given`, whose columns are `given.column1` and so on, cast unless they are texts. With
   * `keyOf`, the last of several rows with one key stands when the additions of several jobs are merged.
   */
  writeMany<Row>(rows: readonly Row[], query: (row: Row) => Sql, keyOf?: (row: Row) => string): void
}

/** A handle on the database. Outside of a transaction, only its questions may be used. */
export type Db = Reader &
  Writer & {
    /** Number of rows that the statement changed. For statements whose number decides; all others are written. */
    count(query: Sql): Promise<number>
  }

/** A handle for code that only asks. */
export function readOnly(reader: Reader): Db {
  const refuse = () => {
    throw new Error('this statement needs a transaction')
  }
  return {
    one: (query) => reader.one(query),
    all: (query) => reader.all(query),
    count: async () => refuse(),
    write: refuse,
    writeMany: refuse,
  }
}

/** A handle for code that only writes. */
export function writeOnly({ write, writeMany }: Writer): Db {
  const refuse = async () => {
    throw new Error('a plan has read all that it needs')
  }
  return { one: refuse, all: refuse, count: refuse, write, writeMany }
}

/** One transaction. It ends with the promise of its work: no statement may come later. */
export type Transaction = {
  readonly db: Db
  /** The rows that were locked at the start. Undefined if the engine has one writer, for whom all are locked. */
  readonly locked: readonly unknown[] | undefined
}

/** A place on the desk for values of one kind. */
export type Shelf<Value> = { readonly holds?: Value }
export const newShelf = <Value>(): Shelf<Value> => Object.freeze({})

/** What later plans of the same commit must see of earlier ones, because it is not stored yet. */
export type Desk = {
  get<Value>(shelf: Shelf<Value>, id: string): Value | undefined
  set<Value>(shelf: Shelf<Value>, id: string, value: Value): void
}

/** What follows from a commit, beside its rows. */
export type Linked = {
  /** The commit is visible to others. A failing listener changes nothing about the commit. */
  committed(): void
  /** The commit is durable, or has failed, or its outcome is unknown. Runs before any caller learns of it. */
  settled(): void
}

/** What is written last in a transaction. Jobs of one lock have links that do the same. */
export type Link<Note> = {
  write(transaction: Transaction, notes: readonly Note[]): Promise<Linked>
  /** What callers get if one of its statements fails. */
  asFailure(error: unknown): unknown
}

/** Rows that jobs look up by key, within something such as an environment. */
export type Question<Row> = {
  query(within: string, keys: readonly string[]): Sql
  keyOf(row: Row): string
}

/** One key to look up. All jobs of a commit that ask the same question within the same thing share one query. */
export type Ask<Row> = { readonly question: Question<Row>; readonly within: string; readonly key: string }

/** The answers to the asks of a commit. */
export type Answers = {
  of<Row>(ask: Ask<Row>): readonly Row[]
}

/**
 * A frequent, small piece of work, which shares a transaction with others of the same lock. All jobs ask and read first;
 * then each plans in turn, on what it has read and on what the plans before it have left on the desk. A job that throws is
 * refused alone, and has written nothing. `Note` is what its plan leaves for the link.
 */
export type Job<Read, Result, Note> = {
  readonly asks?: readonly Ask<unknown>[]
  /** May run twice, like `plan`: if a commit fails, each of its jobs is repeated alone. Only asks. */
  read(db: Db, answers: Answers): Read | Promise<Read>
  /** Only writes; has no effect beside `db` and `desk`, and takes less than 10 ms. */
  plan(read: Read, desk: Desk, db: Db): { readonly result: Result; readonly note: Note }
  /** Bytes that the plan handles: they bound how many jobs share a commit. */
  readonly bytes?: number
  readonly link: Link<Note>
}

export type TransactionOptions<Note> = {
  /**
   * Locks rows against other nodes. The same for the same lock. It runs first, so that jobs which arrive meanwhile join the
   * commit.
   */
  readonly rows?: Sql
  /** Rolled back at its end, without a link; the result stays. */
  readonly isDry?: boolean
  /** Runs at the end of the work. */
  readonly link?: Link<Note>
  readonly note?: Note
}

/** Copies of the store from before a migration, to go back to an older version. */
export type MigrationSnapshots = {
  /** Returns the path. Undefined if an interrupted migration has made it already, or the store was never started. */
  make(step: number): Promise<string | undefined>
  /** Call once all steps are applied: the next migration makes a snapshot of its own. */
  finish(): Promise<void>
  /** The newest snapshot that a version with this many steps can open, and when the store was upgraded from there. */
  find(maxSteps: number): { readonly path: string; readonly leftAt: number } | undefined
}

export type Engine = Reader & {
  readonly kind: 'sqlite' | 'postgres'
  /**
   * All or nothing, acknowledged after a durable commit. Transactions with the same `lock` run one after another on
   * this node; nothing slow may happen in `work`.
   */
  transaction<Result, Note>(
    lock: string,
    work: (transaction: Transaction) => Promise<Result>,
    options?: TransactionOptions<Note>,
  ): Promise<Result>
  /** Runs the job together with others that wait for the same lock. */
  commit<Read, Result, Note>(
    lock: string,
    job: Job<Read, Result, Note>,
    options?: Pick<TransactionOptions<Note>, 'rows'>,
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

export function isList(value: SqlValue): value is List {
  return typeof value === 'object' && value !== null && 'list' in value
}

function isFragment(value: SqlValue): value is Fragment {
  return typeof value === 'object' && value !== null && 'sqlite' in value
}
