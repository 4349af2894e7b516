/** Reads a selection: loads its rows, resolves references, and finds out what the result depends on. */
import { Failure } from '../../../failure.ts'
import type { ReadDetails } from '../../audit/record-read.ts'
import type { Dependency } from '../../cache/response-cache.ts'
import type { Context } from '../../context.ts'
import { personalOwner } from '../choose-environment.ts'
import type { OpenValue } from '../load.ts'
import { type Resolution, resolveRows } from '../reference/follow.ts'
import type { Resolved } from '../reference/resolution.ts'
import { describeRead } from './audit-record.ts'
import { type Loaded, loadSelection } from './loaded.ts'
import type { Selection } from './selection.ts'
import { showSelection } from './shown.ts'
import type { Answered } from './text.ts'

export type Reading = Answered & {
  /** Undefined if the response contains no values. */
  readonly auditDetails: ReadDetails | undefined
  /** The environments that were read, as they were before: a change during the read makes the response stale, not wrong. */
  readonly dependencies: readonly Dependency[]
}

export async function readSelection(ctx: Context, selection: Selection): Promise<Reading> {
  const { access, environments, query } = selection
  const ownerId = personalOwner(ctx)
  const chosen = environments.map(({ id }) => id)
  // References may lead to any environment of the workspace.
  const versions = versionsOf(ctx, query.resolve === true ? access.snapshot.environments.keys() : chosen)
  const loaded = await loadSelection(ctx, selection, ownerId)
  const resolution = await resolveSelection(ctx, selection, loaded, ownerId)
  const auditDetails = await describeRead(ctx, selection, loaded, resolution?.referenced ?? [])
  const dependencies = [...new Set([...chosen, ...(resolution?.environmentIds ?? [])])].map((environmentId) => ({
    environmentId,
    // An environment that is not in the snapshot has no version: such a response is never served from the cache.
    version: versions.get(environmentId) ?? -1,
  }))
  return { ...showSelection(selection, loaded, resolution?.byRow), auditDetails, dependencies }
}

function versionsOf(ctx: Context, environmentIds: Iterable<string>): ReadonlyMap<string, number> {
  const versions = new Map<string, number>()
  for (const id of environmentIds) versions.set(id, ctx.environmentVersions.of(id))
  return versions
}

/** Undefined if the request leaves references as they are, or shows no values. */
async function resolveSelection(
  ctx: Context,
  { access, query: { resolve, view, onUnresolved } }: Selection,
  { secrets, values }: Loaded,
  ownerId: string,
): Promise<Resolution | undefined> {
  if (resolve !== true || view === 'keys' || view === 'cells') return undefined
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  const resolution = await resolveRows(ctx, access, values, names, { ownerId, onUnresolved: onUnresolved ?? 'keep' })
  if (onUnresolved === 'error') refuseUnresolved(resolution.byRow, names)
  return resolution
}

function refuseUnresolved(byRow: ReadonlyMap<OpenValue, Resolved>, names: ReadonlyMap<string, string>): void {
  for (const [row, { unresolved }] of byRow) {
    if (unresolved.length > 0) throw new Failure('conflict', tellUnresolved(names.get(row.secretId) ?? '', unresolved))
  }
}

const tellUnresolved = (name: string, unresolved: readonly string[]): string =>
  `${name}: refers to ${unresolved.slice(0, 10).join(', ')}, which cannot be resolved.`
