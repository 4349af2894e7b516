/**
 * One small SQL layer for two engines. A query is a tagged template; each place in the code is compiled and prepared
 * once per engine, keyed by the template object itself. SQL is portable: text, bigint and bytea columns, `returning`,
 * `on conflict`; the two places where the engines differ are the fragments below.
 */
import type { Failure } from '../../failure.ts'

export type SqlValue = string | number | null | Uint8Array | List | Fragment
export type List = { readonly list: readonly string[] }
type Fragment = { readonly sqlite: string; readonly postgres: string }
export type Sql = { readonly strings: TemplateStringsArray; readonly values: readonly SqlValue[] }

export function sql(strings: TemplateStringsArray, ...values: SqlValue[]): Sql {
  return { strings, values }
}

/** `where id ${anyOf(ids)}`: one parameter, whatever the length of the list. */
export function anyOf(list: readonly string[]): List {
  return { list }
}

/** Text that stands in several queries, such as a list of columns. */
export function fragment(text: string): Fragment {
  return { sqlite: text, postgres: text }
}

/** Locks the selected rows until the transaction ends. SQLite has one writer at a time anyway. */
export const forUpdate: Fragment = { sqlite: '', postgres: 'for update' }
/** Passes over rows that another node has claimed. */
export const skipLocked: Fragment = { sqlite: '', postgres: 'for update skip locked' }

export type Db = {
  one<Row>(query: Sql): Promise<Row | undefined>
  all<Row>(query: Sql): Promise<Row[]>
  /** How many rows it changed. */
  run(query: Sql): Promise<number>
  /** The same insert for many rows: one `values (…)` group in the template, as few round trips as the engine allows. */
  runMany<Row>(rows: readonly Row[], query: (row: Row) => Sql): Promise<void>
}

/**
 * What happens inside a transaction. Transactions that arrive together share one commit: `scratch` and `beforeCommit`
 * live as long as that commit, and are put back when one of the transactions in it fails.
 */
export type Transaction = {
  readonly db: Db
  scratch: Map<string, unknown>
  /** Runs once before the commit, however many transactions ask for it under the same name. */
  beforeCommit: Map<string, () => Promise<void>>
  /** Runs after the commit and before anyone is told of it. */
  afterCommit: (() => void)[]
}

/**
 * One piece of work for many who ask for the same at the same moment, each of whom is answered apart. Where it throws,
 * it is done again for each alone.
 */
export type JointWork<Item, Result> = (
  transaction: Transaction,
  items: readonly Item[],
) => Promise<PromiseSettledResult<Result>[]>

export type Engine = Db & {
  readonly kind: 'sqlite' | 'postgres'
  /**
   * All or nothing, acknowledged after a durable commit. Transactions with the same `lock` run one after another on
   * this node and may share a commit; nothing slow may happen in `work`.
   */
  transaction<Result>(lock: string, work: (transaction: Transaction) => Promise<Result>): Promise<Result>
  /** The same, done in one go with all others of the same group that wait for the same work. */
  joinTransaction<Item, Result>(lock: string, group: string, item: Item, work: JointWork<Item, Result>): Promise<Result>
  /** Calls back whenever the storage fails to take a commit, and stays silent about work that has failed by itself. */
  onRefusal(listener: (error: Failure) => void): void
  /** Throws an Error with one sentence when a commit would not survive a power failure. */
  checkDurability(): Promise<void>
  /** What is known about damage to the files; throws where there is some. */
  checkFiles(): Promise<string>
  /** Runs one migration statement and its bookkeeping as one transaction; the first one makes the book. */
  migrateStep(step: number, name: string, statement: string, nowMs: number): Promise<void>
  /** The highest migration step that was ever applied; 0 in an empty database, which stays empty. */
  migratedSteps(): Promise<number>
  close(): Promise<void>
}

export type Compiled = { readonly text: string; readonly kinds: readonly ('value' | 'list' | 'fragment')[] }

/**
 * Compiles with the engine's own placeholders; the result can be kept for the life of the template object. With
 * `singleItems` it serves lists of one item each, which is a plain comparison and several times faster in SQLite.
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
