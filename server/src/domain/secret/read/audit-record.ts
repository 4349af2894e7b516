/** What the audit trail says about a read. */
import { type ReadDetails, readDetails, recordRead } from '../../audit/record-read.ts'
import type { CachedResponse } from '../../cache/response-cache.ts'
import type { Context } from '../../context.ts'
import { secretsEntity } from '../audit-record.ts'
import { type AuditedRead, withBases } from '../name-base.ts'
import { namePlaces } from '../reference/follow.ts'
import type { Place } from '../reference/graph.ts'
import type { Loaded } from './loaded.ts'
import { isNarrowed, type Selection } from './selection.ts'

/** Undefined if no value was read. `referenced` lists the values that were read because others refer to them. */
export async function describeRead(
  ctx: Context,
  selection: Selection,
  { secrets, values, allNames }: Loaded,
  referenced: readonly Place[],
): Promise<ReadDetails | undefined> {
  const { access, environments, query } = selection
  if (query.view === 'keys' || values.length === 0) return undefined
  const valued = new Set(values.map(({ secretId }) => secretId))
  const read = {
    keys: secrets.filter(({ id }) => valued.has(id)).map(({ name }) => name),
    environments: environments.map(({ name }) => name),
    environmentIds: [...environments.map(({ id }) => id), ...referenced.map(({ environmentId }) => environmentId)],
    referenced: namePlaces(access, referenced),
  }
  const named = isNarrowed(selection) ? await withBases(ctx, access, read, allNames, referenced) : read
  return toDetails(named)
}

function toDetails({ keys, environments, environmentIds, referenced, bases }: AuditedRead): ReadDetails {
  return readDetails({ keys, environments, ...(referenced.length > 0 && { referenced }) }, environmentIds, bases)
}

export function recordSelection(
  ctx: Context,
  { access, environments, key, query }: Selection,
  details: ReadDetails,
  { entity, bytes }: Pick<CachedResponse, 'entity' | 'bytes'>,
): Promise<void> {
  const [only] = environments
  const { project, snapshot } = access
  const event = {
    chain: snapshot.workspace.id,
    // Cells show which values are equal, but no value.
    action: query.view === 'cells' ? 'COMPARE' : 'VIEW',
    entity: key === undefined ? secretsEntity(project) : { type: 'secret', ...entity },
    projectId: project.id,
    ...(only && environments.length === 1 && { environmentId: only.id }),
  } as const
  return recordRead(ctx, event, details, bytes)
}
