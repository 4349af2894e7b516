/** Writes single values. Concurrent requests in one workspace share a commit. */
import type { SecretPath, ValueChange, WriteResult } from '@coffer/contract/secret'
import { headRows } from '../../../store/audit/head.ts'
import type { Db, Desk, Job } from '../../../store/engine/sql.ts'
import { type ProjectAccess, requireProject } from '../../access/access.ts'
import type { Context, Outcome } from '../../context.ts'
import { confirmOver, enterTransaction, newOutcome, outcomeLink } from '../../transaction.ts'
import { requireReached } from '../choose-environment.ts'
import { requireSecret } from '../find.ts'
import { hasReferences } from '../reference/reference.ts'
import { requireWriter } from '../right.ts'
import { applyChange } from './apply.ts'
import { inSecretTransaction, recordingComparison, type Written } from './compare.ts'
import { requireMatch } from './match.ts'
import { type Current, type Edit, type Present, valueName } from './plan.ts'
import { type Draft, planDraft, readDraft, upsert, writeValues } from './write.ts'

export async function writeSecretValue(
  ctx: Context,
  path: SecretPath,
  body: ValueChange,
  ifMatch: string | undefined,
): Promise<{ success: boolean; version: number }> {
  const access = await requireProject(ctx, path, 'secret:update')
  const { value, message, ifVersion, isPersonal = false } = body
  requireWriter(ctx, access, [{ isPersonal }])
  const environment = requireReached(access, body.environmentId)
  requireWriter(ctx, access, [{ isPersonal, environment }])
  const edit = { key: path.key, environment, value, isPersonal, ifVersion }
  const [result] =
    ifMatch === undefined && mayShareWrite(edit)
      ? await commitValue(ctx, access, edit, message)
      : await inSecretTransaction(ctx, access, async (ctx) => {
          const secret = await requireSecret(ctx, access, path.key)
          await requireMatch(ctx, access, secret, ifMatch, environment)
          return writeValues(ctx, access, [{ ...edit, key: secret.name, secret }], upsert(ctx, access, message))
        })
  return { success: true, version: result?.version ?? 0 }
}

/** Whether this edit of an existing secret may share a commit: with two references, a cycle could close unseen. */
const mayShareWrite = ({ value, isPersonal }: Edit): boolean => !isPersonal && (value === null || !hasReferences(value))

function commitValue(
  ctx: Context,
  access: ProjectAccess,
  edit: Edit,
  message?: string,
): Promise<readonly WriteResult[]> {
  const { workspace } = access.snapshot
  return recordingComparison(ctx, access, async (compared) => {
    const job: Job<Draft, Written<readonly WriteResult[]>, Outcome> = {
      bytes: edit.value?.length ?? 0,
      read: async (db) => {
        await confirmOver(ctx, db)
        const inside = { ...enterTransaction(ctx, { db, locked: [] }, newOutcome()), compared, isDryRun: false }
        return readDraft(inside, access, [edit], { ...upsert(inside, access, message), mustExist: true })
      },
      plan: (draft, desk, db) => planValue(draft, desk, db),
      link: outcomeLink(ctx),
    }
    const written = await ctx.engine.commit(workspace.id, job, { rows: headRows([workspace.id]) })
    ctx.run.hasCommitted = true
    return written
  })
}

function planValue(draft: Draft, desk: Desk, db: Db): { result: Written<readonly WriteResult[]>; note: Outcome } {
  const { access } = draft
  const outcome = newOutcome()
  const ctx = { ...draft.ctx, ...enterTransaction(draft.ctx, { db, locked: [] }, outcome) }
  const change = planDraft({ ...draft, present: presentNow(draft, desk) })
  const revisions = new Map(draft.revisions)
  // The casts are safe: only this file uses these names.
  for (const id of revisions.keys())
    revisions.set(id, (desk.get(`revision:${id}`) as number | undefined) ?? revisions.get(id) ?? 0)
  applyChange(ctx, access, change, revisions)
  for (const { edit, secret, version } of change.planned) {
    const { environment, value } = edit
    const current: Current = { secretId: secret.id, version, isThere: value !== null, text: value ?? undefined }
    desk.set(`value:${valueName(environment.id, secret.id, '')}`, current)
    desk.set(`revision:${environment.id}`, change.revisions.of(environment.id))
  }
  return { result: { result: change.results, isRecorded: change.planned.length > 0 }, note: outcome }
}

/** The present values, as earlier plans of the same commit leave them. */
function presentNow({ edits, present: { secrets, values } }: Draft, desk: Desk): Present {
  const current = new Map(values)
  for (const { key, environment } of edits) {
    const name = valueName(environment.id, secrets.get(key)?.id ?? '', '')
    const changed = desk.get(`value:${name}`) as Current | undefined
    if (changed) current.set(name, changed)
  }
  return { secrets, values: current }
}
