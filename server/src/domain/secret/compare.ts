/**
 * Audit entries for comparisons with stored values. A dry run, a refused write and an unchanged write reveal something
 * about values but leave no other audit entry, so each records one `COMPARE` before its response is sent.
 */
import { Failure, isFailure } from '../../failure.ts'
import type { SecretRecord } from '../../store/secret.ts'
import type { ProjectAccess } from '../access/access.ts'
import { lockChain } from '../audit/chain.ts'
import { readDetails } from '../audit/read.ts'
import { type AuditEvent, record, secretsOf } from '../audit/record.ts'
import type { PicturedEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import { inTransaction } from '../transaction.ts'

/** The keys and environments whose values were compared. */
type Comparison = {
  readonly environments: Iterable<PicturedEnvironment>
  readonly keys: Iterable<string>
  readonly secrets?: Iterable<SecretRecord>
  readonly isDryRun?: boolean | undefined
}

/** Everything that one request has compared so far. */
export type Compared = Comparison & { add(more: Comparison): void }

/** Required by every function that compares values in a transaction. Only `inSecretTransaction` creates one. */
export type CompareContext = WriteContext & { readonly compared: Compared }

/** `isRecorded`: the audit trail already has an entry for this write. */
export type Written<Result> = { readonly result: Result; readonly isRecorded: boolean }

/** Runs a transaction that writes or compares values. `isUndone` rolls it back at the end and keeps the result. */
export function inSecretTransaction<Result>(
  ctx: Context,
  access: ProjectAccess,
  work: (ctx: CompareContext) => Promise<Result>,
  isUndone = false,
): Promise<Result> {
  const chain = access.picture.workspace.id
  return recordingComparison(ctx, access, async (compared) => {
    const undone = new Failure('internal')
    let outcome: Written<Result> | undefined
    try {
      return await inTransaction(ctx, chain, async (ctx) => {
        const before = await lockChain(ctx, chain)
        const result = await work({ ...ctx, compared })
        const after = await lockChain(ctx, chain)
        outcome = { result, isRecorded: !isUndone }
        if (isUndone) throw undone
        const event = comparisonOf(access, compared, 'success')
        // Recorded inside the transaction: its end frees the slot, and the next large write would delay this entry.
        if (event && after.sequence === before.sequence) await record(ctx, event)
        return outcome
      })
    } catch (error) {
      if (error === undone && outcome) return outcome
      throw error
    }
  })
}

/** Runs a write, and records its comparisons if it was refused or left no audit entry of its own. */
export async function recordingComparison<Result>(
  ctx: Context,
  access: ProjectAccess,
  write: (compared: Compared) => Promise<Written<Result>>,
): Promise<Result> {
  const compared = createCompared()
  let written: Written<Result>
  try {
    written = await write(compared)
  } catch (error) {
    // Recorded after the rollback: the entry must outlive the refused transaction.
    if (isFailure(error) && error.status < 500) await recordComparison(ctx, access, compared, 'failure')
    throw error
  }
  if (!written.isRecorded) await recordComparison(ctx, access, compared, 'success')
  return written.result
}

function createCompared(): Compared {
  const [environments, keys, secrets] = [new Set<PicturedEnvironment>(), new Set<string>(), new Set<SecretRecord>()]
  let isDryRun = false
  return {
    add(more) {
      for (const environment of more.environments) environments.add(environment)
      for (const key of more.keys) keys.add(key)
      for (const secret of more.secrets ?? []) secrets.add(secret)
      isDryRun ||= more.isDryRun ?? false
    },
    environments,
    keys,
    secrets,
    get isDryRun() {
      return isDryRun
    },
  }
}

/** For comparisons outside a transaction, or after it was rolled back. */
export async function recordComparison(
  ctx: Context,
  access: ProjectAccess,
  compared: Comparison,
  outcome: 'success' | 'failure',
  more: Record<string, unknown> = {},
  /** Size of the response, to reserve memory for it; 0 for a write, whose response must be sent in any case. */
  bytes = 0,
): Promise<void> {
  const event = comparisonOf(access, compared, outcome)
  if (event) await ctx.reads.record(ctx, event, readDetails({ ...event.after, ...more }, event.environmentIds), bytes)
}

function comparisonOf({ picture, project }: ProjectAccess, compared: Comparison, outcome: 'success' | 'failure') {
  const keys = [...compared.keys].sort()
  if (keys.length === 0) return undefined
  const secret = keys.length === 1 ? [...(compared.secrets ?? [])].find(({ name }) => name === keys[0]) : undefined
  const environments = [...compared.environments]
  return {
    chain: picture.workspace.id,
    action: 'COMPARE',
    entity: secret ? { type: 'secret', id: secret.id, name: secret.name } : secretsOf(project),
    projectId: project.id,
    environmentIds: environments.map(({ id }) => id),
    outcome,
    after: { keys, environments: environments.map(({ name }) => name), ...(compared.isDryRun && { dryRun: true }) },
  } as const satisfies AuditEvent
}
