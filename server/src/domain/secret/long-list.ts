/** Long lists are read in portions of long work, so that others are served in between. */
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'

/** Rows per query: SQLite reads on the event loop, and takes about four milliseconds for these. */
export const rowsPerQuery = 1_024

/** Rows per query if they may hold large values, or are decrypted at once. */
export const largeRowsPerQuery = 128

type Lengths = Pick<WorkspaceSnapshot, 'listLengths'>

/** Waits for a portion if this list was long when it was last read, or was never read. */
export async function waitIfLong(
  { longWork }: Pick<Context, 'longWork'>,
  { listLengths }: Lengths,
  use: string,
): Promise<void> {
  if ((listLengths.get(use) ?? Number.POSITIVE_INFINITY) > rowsPerQuery) await longWork.giveWay()
}

/** For a list that one query must read. `use` tells the lists of one workspace apart. */
export async function listWhole<Row>(
  ctx: Pick<Context, 'longWork'>,
  snapshot: Lengths,
  use: string,
  list: () => Promise<Row[]>,
): Promise<Row[]> {
  await waitIfLong(ctx, snapshot, use)
  const rows = await list()
  snapshot.listLengths.set(use, rows.length)
  return rows
}

/** Splits ids that stand for `rowsPerId` rows each into parts of about `rowsPerPart` rows. */
export function* partsOf(
  ids: readonly string[],
  rowsPerId: number,
  rowsPerPart = rowsPerQuery,
): Generator<readonly string[]> {
  const perPart = Math.max(1, Math.floor(rowsPerPart / Math.max(1, rowsPerId)))
  if (ids.length <= perPart) yield ids
  else for (let from = 0; from < ids.length; from += perPart) yield ids.slice(from, from + perPart)
}
