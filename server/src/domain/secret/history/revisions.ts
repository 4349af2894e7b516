/** The revisions of an environment, newest first, with what each of them changed. */
import type { EnvironmentPath } from '@coffer/contract/field'
import type { Revision, RevisionListQuery } from '@coffer/contract/history'
import type { ChangeRow, RenameRow } from '../../../store/secret/value.ts'
import { requireEnvironment } from '../../access/access.ts'
import type { Context } from '../../context.ts'
import { decodeCursor, encodeCursor } from '../../cursor.ts'
import { defaultPageLength } from '../../page.ts'
import { iso } from '../../time.ts'
import { rowsPerQuery, waitIfLong } from '../long-list.ts'
import { commaAt, type WrittenAnswer, writeAnswer } from '../read/chunks.ts'
import { createAllowance } from '../size.ts'

/** Revisions with many changes make a page shorter. It always holds at least one revision. */
const maxChangesPerPage = 20_000

/** Revisions that are counted by the first query. */
const firstWindow = 4

type Counted = { readonly revision: number; readonly changes: number }

/** A page as JSON. */
type RevisionPage = { readonly body: WrittenAnswer['body']; readonly nextCursor: string | undefined }

export async function listRevisions(
  ctx: Context,
  path: EnvironmentPath,
  query: RevisionListQuery,
): Promise<RevisionPage> {
  const { environment, snapshot } = await requireEnvironment(ctx, path, 'secret:read')
  const limit = query.limit ?? defaultPageLength
  const current = await ctx.store.secretValues.currentRevision(environment.id, snapshot.workspace.id)
  const before = query.cursor === undefined ? current + 1 : Math.min(decodeCursor(query.cursor), current + 1)
  const use = `revisions ${environment.id}`
  await waitIfLong(ctx, snapshot, use)
  const found = await countBefore(ctx, environment.id, before, limit + 1)
  const changed = found.reduce((sum, { changes }) => sum + changes, 0)
  snapshot.listLengths.set(use, changed)
  const shown = firstRevisions(found.slice(0, limit))
  const last = shown.at(-1)?.revision
  const changes = await loadChanges(ctx, environment.id, shown)
  const allowance = createAllowance(ctx, 'limit', 'ask for fewer revisions')
  const { body } = await writeAnswer(ctx, entriesOf(shown, changes), allowance)
  return { body, nextCursor: found.length > shown.length && last !== undefined ? encodeCursor(last) : undefined }
}

/** Looks back in growing windows, so that a page costs no more for a long history. */
async function countBefore(ctx: Context, environmentId: string, before: number, wanted: number): Promise<Counted[]> {
  const found: Counted[] = []
  let changes = 0
  let upTo = before
  for (let length = firstWindow; upTo > 0 && found.length < wanted && changes <= maxChangesPerPage; length *= 2) {
    if (upTo < before) await ctx.longWork.giveWay()
    const from = Math.max(0, upTo - length)
    for (const counted of await ctx.store.secretVersions.countRevisions(environmentId, from, upTo)) {
      found.push(counted)
      changes += counted.changes
    }
    upTo = from
  }
  return found.slice(0, wanted)
}

function firstRevisions(found: readonly Counted[]): Counted[] {
  let left = maxChangesPerPage
  return found.filter(({ changes }, index) => {
    left -= changes
    return index === 0 || left >= 0
  })
}

type Changes = {
  readonly versions: ReadonlyMap<number, readonly ChangeRow[]>
  readonly renames: ReadonlyMap<number, readonly RenameRow[]>
}

async function loadChanges(ctx: Context, environmentId: string, shown: readonly Counted[]): Promise<Changes> {
  const { secretVersions } = ctx.store
  const versions: ChangeRow[] = []
  const renames: RenameRow[] = []
  for (const { from, to, isShort } of stretchesOf(shown)) {
    if (!isShort) await ctx.longWork.giveWay()
    for (const row of await secretVersions.listBetween(environmentId, from, to)) versions.push(row)
    for (const row of await secretVersions.listRenamesBetween(environmentId, from, to)) renames.push(row)
  }
  const revisionOf = ({ revision }: { readonly revision: number }) => revision
  return { versions: Map.groupBy(versions, revisionOf), renames: Map.groupBy(renames, revisionOf) }
}

type Stretch = { readonly from: number; readonly to: number; readonly isShort: boolean }

/** Neighbours that are read by one query. A revision of many changes is one by itself. */
function* stretchesOf(shown: readonly Counted[]): Generator<Stretch> {
  let rows = 0
  let isFirst = true
  let to: number | undefined
  for (const [index, { revision, changes }] of shown.entries()) {
    to ??= revision
    rows += changes
    const next = shown[index + 1]
    if (next && rows + next.changes <= rowsPerQuery) continue
    yield { from: revision, to, isShort: isFirst && rows <= rowsPerQuery }
    isFirst = false
    to = undefined
    rows = 0
  }
}

function* entriesOf(shown: readonly Counted[], { versions, renames }: Changes): Generator<string> {
  yield '['
  for (const [index, { revision }] of shown.entries()) {
    const written = versions.get(revision) ?? []
    const renamed = renames.get(revision) ?? []
    const first = written[0] ?? renamed[0]
    const head: Omit<Revision, 'changes'> = {
      revision,
      createdAt: iso(first?.createdAt ?? 0),
      createdBy: first?.createdBy ?? '',
      message: first?.message ?? '',
    }
    yield `${commaAt(index)}${JSON.stringify(head).slice(0, -1)},"changes":[`
    for (const [at, { oldName, newName }] of renamed.entries()) {
      yield commaAt(at) + toText({ key: newName, action: 'renamed', from: oldName })
    }
    for (const [at, { name, action }] of written.entries()) {
      yield commaAt(renamed.length + at) + toText({ key: name, action })
    }
    yield ']}'
  }
  yield ']'
}

const toText = (change: Revision['changes'][number]): string => JSON.stringify(change)
