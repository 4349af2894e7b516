/**
 * Audit entries for comparisons with stored values. A dry run, a refused write and an unchanged write reveal something
 * about values but leave no other audit entry, so each records one `COMPARE` before its response is sent.
 */
import { isFailure } from '../../../failure.ts'
import type { NameBases } from '../../../store/audit/key-list.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { AuditEvent } from '../../audit/event.ts'
import { record } from '../../audit/record.ts'
import { readDetails, recordRead } from '../../audit/record-read.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../../context.ts'
import { inTransaction } from '../../transaction.ts'
import { secretsEntity } from '../audit-record.ts'

/** The keys and environments whose values were compared. */
export type Comparison = {
  readonly environments: readonly SnapshotEnvironment[]
  readonly keys: readonly string[]
  readonly secrets?: readonly SecretRecord[]
  /** Base lists for keys that depend on a revision which the caller chose. */
  readonly bases?: NameBases | undefined
}

/**
 * Required by every function that compares values in a transaction: each adds its comparisons to `compared`. Created
 * by `inSecretTransaction`, and for each request of a joint write, inside `recordingComparison`.
 */
export type CompareContext = WriteContext & { readonly compared: Comparison[]; readonly isDryRun: boolean }

/** `isRecorded`: the audit trail already has an entry for this write. */
export type Written<Result> = { readonly result: Result; readonly isRecorded: boolean }

/** Runs a transaction that writes or compares values. A dry run writes too, and is rolled back. */
export function inSecretTransaction<Result>(
  ctx: Context,
  access: ProjectAccess,
  work: (ctx: CompareContext) => Promise<Result>,
  isDryRun = false,
): Promise<Result> {
  const chain = access.snapshot.workspace.id
  const write = async (compared: Comparison[]) => {
    const enter = async (ctx: WriteContext) => {
      const result = await work({ ...ctx, compared, isDryRun })
      // Recorded inside the transaction: its end frees the slot, and the next large write would delay this entry.
      const event = ctx.transaction.entries.length === 0 && comparisonOf(access, compared, 'success')
      if (event) record(ctx, event)
      return result
    }
    return { result: await inTransaction(ctx, chain, enter, { isDry: isDryRun }), isRecorded: !isDryRun }
  }
  return recordingComparison(ctx, access, write, isDryRun ? { dryRun: true } : {})
}

/** Runs a write, and records its comparisons if it was refused or left no audit entry of its own. */
export async function recordingComparison<Result>(
  ctx: Context,
  access: ProjectAccess,
  write: (compared: Comparison[]) => Promise<Written<Result>>,
  more: Record<string, unknown> = {},
): Promise<Result> {
  const compared: Comparison[] = []
  let written: Written<Result>
  try {
    written = await write(compared)
  } catch (error) {
    // Recorded after the rollback: the entry must outlive the refused transaction.
    if (isFailure(error) && error.status < 500) await recordComparison(ctx, access, compared, 'failure', more)
    throw error
  }
  if (!written.isRecorded) await recordComparison(ctx, access, compared, 'success', more)
  return written.result
}

/** For comparisons outside a transaction, or after it was rolled back. */
export async function recordComparison(
  ctx: Context,
  access: ProjectAccess,
  compared: readonly Comparison[],
  outcome: 'success' | 'failure',
  more: Record<string, unknown> = {},
  /** Size of the response, to reserve memory for it; 0 for a write, whose response must be sent in any case. */
  bytes = 0,
): Promise<void> {
  const event = comparisonOf(access, compared, outcome)
  if (!event) return
  const details = readDetails({ ...event.after, ...more }, event.environmentIds, event.bases)
  await recordRead(ctx, event, details, bytes)
}

function comparisonOf(
  { snapshot, project }: ProjectAccess,
  compared: readonly Comparison[],
  outcome: 'success' | 'failure',
) {
  const keys = [...new Set(compared.flatMap((one) => one.keys))].sort()
  if (keys.length === 0) return undefined
  const secrets = keys.length === 1 ? compared.flatMap((one) => one.secrets ?? []) : []
  const secret = secrets.find(({ name }) => name === keys[0])
  const environments = [...new Set(compared.flatMap((one) => one.environments))]
  return {
    chain: snapshot.workspace.id,
    action: 'COMPARE',
    entity: secret ? { type: 'secret', id: secret.id, name: secret.name } : secretsEntity(project),
    projectId: project.id,
    environmentIds: environments.map(({ id }) => id),
    outcome,
    after: { keys, environments: environments.map(({ name }) => name) },
    bases: compared.find((one) => one.bases)?.bases,
  } as const satisfies AuditEvent
}
