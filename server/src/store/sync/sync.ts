/**
 * Syncs: their schedule and their settings, one sealed record bound to the workspace, project, provider, environment
 * and creator in the row. Changing one of those columns in the database makes the record unreadable.
 */
import type { Scope } from '@coffer/contract/field'
import type { SyncState, SyncTrigger } from '@coffer/contract/sync'
import { associatedData, keyVersionOf, open, seal } from '../../crypto/envelope.ts'
import { isFailure } from '../../failure.ts'
import { anyOf, type Db, forUpdate, fragment, skipLocked, sql } from '../engine/sql.ts'
import { type Keys, requireWorkspaceKey } from '../key/key.ts'
import { maxDelayMs, type RunMark } from './run-mark.ts'

type Answers = Readonly<Record<string, string>>

/** Everything a run needs. `scopes` is the reach of the credential that set up the sync. */
export type SyncSettings = {
  readonly credential: Answers
  /** The person who entered the credential. */
  readonly credentialBy: string
  readonly account: string
  readonly target: Answers
  readonly options: Answers
  readonly mapping: Answers
  readonly scopes: readonly Scope[]
  /** Base64 key for MACs of pushed values, which detect unchanged values without storing them. */
  readonly macKey: string
}
/** The wizard's answers so far. A draft of a running sync has no effect until the last step. */
export type SyncDraft = {
  /** Answers of the auth step that are not secret and can be shown again. */
  readonly auth?: Answers
  readonly credential?: Answers
  readonly credentialBy?: string
  readonly account?: string
  readonly target?: Answers
  readonly isTargetComplete?: boolean
  readonly mapping?: Answers
  readonly options?: Answers
}
export type SyncContent = { readonly live: SyncSettings | null; readonly draft: SyncDraft | null }

export type SyncRecord = {
  readonly id: string
  readonly workspaceId: string
  readonly projectId: string
  readonly provider: string
  readonly name: string
  readonly state: SyncState
  readonly environmentId: string | null
  readonly createdBy: string
  readonly target: string | null
  readonly lastError: string | null
  /** Short code of why the sync is blocked. */
  readonly reason: string | null
  readonly triggerNext: SyncTrigger
  readonly draftUntil: number | null
  readonly credentialHash: string | null
  readonly placeHash: string | null
  readonly concurrency: number
  readonly quietMs: number
  readonly maxWaitMs: number
  readonly fence: number
  readonly dueAt: number | null
  readonly notBefore: number
  readonly scanAt: number | null
  readonly changeCount: number
  /** Time of the oldest change that has not been pushed. */
  readonly changedAt: number | null
  readonly failCount: number
  readonly failingSince: number | null
  /** Number of deletes that a person has reviewed and allowed. */
  readonly allowedDeletes: number
  readonly lastRunAt: number | null
  readonly lastOkAt: number | null
  readonly createdAt: number
  readonly updatedAt: number
}
export type SealedSync = SyncRecord & { readonly sealed: Uint8Array }
export type ClaimedSync = SealedSync & { readonly leaseUntil: number; readonly run: RunMark }

const columns = fragment(`
  id, workspace_id as "workspaceId", project_id as "projectId", provider, name, state,
  environment_id as "environmentId", created_by as "createdBy", target, last_error as "lastError", reason,
  trigger_next as "triggerNext", draft_until as "draftUntil", credential_hash as "credentialHash",
  place_hash as "placeHash", concurrency, quiet_ms as "quietMs", max_wait_ms as "maxWaitMs", fence, due_at as "dueAt",
  not_before as "notBefore", scan_at as "scanAt", change_count as "changeCount", changed_at as "changedAt",
  fail_count as "failCount", failing_since as "failingSince", allowed_deletes as "allowedDeletes",
  last_run_at as "lastRunAt", last_ok_at as "lastOkAt", created_at as "createdAt", updated_at as "updatedAt", sealed`)

export function syncStore(db: Db, keys: Keys) {
  async function sealContent(sync: SyncRecord, content: SyncContent): Promise<{ version: number; sealed: Buffer }> {
    const { version, key } = await requireWorkspaceKey(db, keys, sync.workspaceId)
    return { version, sealed: seal(key, version, contentPlace(sync), Buffer.from(JSON.stringify(content))) }
  }

  async function openContent(sync: SealedSync): Promise<SyncContent> {
    const { key } = await requireWorkspaceKey(db, keys, sync.workspaceId, keyVersionOf(sync.sealed))
    return JSON.parse(open(key, contentPlace(sync), sync.sealed).toString('utf8'))
  }

  async function openIfGenuine(sync: SealedSync): Promise<SyncContent | undefined> {
    return openContent(sync).catch((error: unknown) => {
      if (isFailure(error, 'integrity')) return undefined
      throw error
    })
  }

  return {
    open: openContent,

    async insert(sync: SyncRecord, content: SyncContent): Promise<void> {
      const { version, sealed } = await sealContent(sync, content)
      db.write(sql`
        insert into sync (id, workspace_id, project_id, provider, name, state, environment_id, created_by, sealed,
          workspace_key_version, trigger_next, draft_until, concurrency, quiet_ms, max_wait_ms, fence, not_before,
          change_count, fail_count, allowed_deletes, created_at, updated_at)
        values (${sync.id}, ${sync.workspaceId}, ${sync.projectId}, ${sync.provider}, ${sync.name}, ${sync.state},
          ${sync.environmentId}, ${sync.createdBy}, ${sealed}, ${version}, ${sync.triggerNext}, ${sync.draftUntil},
          ${sync.concurrency}, ${sync.quietMs}, ${sync.maxWaitMs}, 0, 0, 0, 0, 0, ${sync.createdAt}, ${sync.updatedAt})`)
    },

    async find(id: string): Promise<SealedSync | undefined> {
      return db.one<SealedSync>(sql`select ${columns} from sync where id = ${id}`)
    },

    /** Like `find`, and locks the row until the transaction ends. */
    async findLocked(id: string): Promise<SealedSync | undefined> {
      return db.one<SealedSync>(sql`select ${columns} from sync where id = ${id} ${forUpdate}`)
    },

    async list(projectId: string, workspaceId: string): Promise<SealedSync[]> {
      return db.all<SealedSync>(sql`
        select ${columns} from sync where project_id = ${projectId} and workspace_id = ${workspaceId} order by id`)
    },

    /** The syncs that push with the rights of a person or a service account, without unfinished ones. */
    async listLiveOf(ownerId: string, workspaceId: string): Promise<SealedSync[]> {
      return db.all<SealedSync>(sql`
        select ${columns} from sync
        where workspace_id = ${workspaceId} and created_by = ${ownerId} and state not in ('draft', 'removing')
        order by id`)
    },

    /** Syncs of others that this person had set up, and that were transferred. */
    async listMadeBy(userId: string, workspaceId: string): Promise<SealedSync[]> {
      return db.all<SealedSync>(sql`
        select ${columns} from sync
        where workspace_id = ${workspaceId} and made_by = ${userId} and created_by <> ${userId}
          and state not in ('draft', 'removing')
        order by id`)
    },

    /** Call before a transfer, which replaces the person that the sync runs for. The first maker stays. */
    noteMaker({ id, workspaceId, createdBy }: SealedSync): void {
      db.write(sql`
        update sync set made_by = coalesce(made_by, ${createdBy}) where id = ${id} and workspace_id = ${workspaceId}`)
    },

    /**
     * Saves everything that the wizard and people decide; the counters of runs stay. With a higher `fence`, a run in
     * progress loses its hold: it stops calling the vendor and cannot overwrite this decision.
     */
    async save(sync: SyncRecord, content: SyncContent): Promise<void> {
      const { version, sealed } = await sealContent(sync, content)
      db.write(sql`
        update sync set name = ${sync.name}, state = ${sync.state}, environment_id = ${sync.environmentId},
          created_by = ${sync.createdBy}, sealed = ${sealed}, workspace_key_version = ${version},
          target = ${sync.target}, last_error = ${sync.lastError}, reason = ${sync.reason},
          trigger_next = ${sync.triggerNext}, draft_until = ${sync.draftUntil},
          credential_hash = ${sync.credentialHash}, place_hash = ${sync.placeHash}, concurrency = ${sync.concurrency},
          quiet_ms = ${sync.quietMs}, max_wait_ms = ${sync.maxWaitMs}, due_at = ${sync.dueAt},
          not_before = ${sync.notBefore}, fail_count = ${sync.failCount}, failing_since = ${sync.failingSince},
          allowed_deletes = ${sync.allowedDeletes}, last_ok_at = ${sync.lastOkAt}, fence = ${sync.fence},
          updated_at = ${sync.updatedAt}
        where id = ${sync.id} and workspace_id = ${sync.workspaceId}`)
    },

    async remove(id: string, workspaceId: string): Promise<boolean> {
      return (await db.count(sql`delete from sync where id = ${id} and workspace_id = ${workspaceId}`)) === 1
    },

    /** Removes the syncs that push from a deleted environment. */
    async removeOf(environmentId: string, workspaceId: string): Promise<{ id: string; name: string }[]> {
      return db.all(sql`
        delete from sync where environment_id = ${environmentId} and workspace_id = ${workspaceId} returning id, name`)
    },

    /** Call in the transaction of every change of an environment's values: schedules the syncs that push from it. */
    wake(environmentId: string, nowMs: number): void {
      db.write(sql`
        update sync set change_count = change_count + 1, changed_at = coalesce(changed_at, ${nowMs}),
          trigger_next = case when trigger_next = 'drift' then 'change' else trigger_next end,
          due_at = case
            when state not in ('active', 'failing') and not (state = 'blocked' and coalesce(reason, '') = 'source')
              then due_at
            when not_before > ${nowMs} then case
              when not_before > ${nowMs} + quiet_ms then not_before else ${nowMs} + quiet_ms end
            when coalesce(changed_at, ${nowMs}) + max_wait_ms < ${nowMs} + quiet_ms
              then coalesce(changed_at, ${nowMs}) + max_wait_ms
            else ${nowMs} + quiet_ms end
        where id in (select sync_id from sync_source where environment_id = ${environmentId})`)
    },

    /** Schedules all syncs after a change of rights or of referenced names. A run in progress is followed by another. */
    wakeAll(workspaceId: string, nowMs: number): void {
      db.write(sql`
        update sync set due_at = ${nowMs}, change_count = change_count + 1,
          trigger_next = case when trigger_next = 'drift' then 'change' else trigger_next end
        where workspace_id = ${workspaceId} and not_before <= ${nowMs}
          and (state in ('active', 'failing') or (state = 'blocked' and reason = 'source'))`)
    },

    /** True too if a run has died: it must be recorded, even if its sync is not due. */
    async hasDue(nowMs: number): Promise<boolean> {
      const far = nowMs + maxDelayMs
      const rows = await db.all(sql`
        select id from sync where due_at <= ${nowMs} or due_at > ${far} or lease_until < ${nowMs} limit 1`)
      return rows.length > 0
    },

    /**
     * Claims the next due sync that no run holds, unless its credential is already used by as many runs as allowed.
     * `fence` rises with every claim, which exposes a run that comes back late.
     */
    async claim(run: RunMark, leaseUntil: number, exceptOf: readonly string[]): Promise<ClaimedSync | undefined> {
      const [nowMs, far, mark] = [run.at, run.at + maxDelayMs, JSON.stringify(run)]
      // One claim at a time; otherwise two nodes could both see room for one more run.
      await db.one(sql`select id from instance where id = 1 ${forUpdate}`)
      const claimed = await db.one<Omit<ClaimedSync, 'run'>>(sql`
        update sync set fence = fence + 1, lease_until = ${leaseUntil}, run = ${mark}, run_fence = fence + 1
        where id = (
          select c.id from sync c
          where (c.due_at <= ${nowMs} or c.due_at > ${far}) and not (c.workspace_id ${anyOf(exceptOf)})
            and (coalesce(c.lease_until, 0) < ${nowMs} or c.lease_until > ${far})
            and (select count(*) from sync o
              where o.credential_hash = c.credential_hash and o.lease_until between ${nowMs} and ${far}) < c.concurrency
          order by c.due_at limit 1)
          -- Once more, of the row as it is when its turn has come: somebody may have paused it meanwhile.
          and (due_at <= ${nowMs} or due_at > ${far}) and (coalesce(lease_until, 0) < ${nowMs} or lease_until > ${far})
        returning ${columns}, lease_until as "leaseUntil"`)
      return claimed && { ...claimed, run }
    },

    /** Stores the result of a run; a change that arrived meanwhile makes the sync due again. False for a lost fence. */
    async finish(
      sync: Pick<SyncRecord, 'id' | 'fence' | 'changeCount'>,
      end: Pick<
        SyncRecord,
        'state' | 'lastError' | 'reason' | 'triggerNext' | 'notBefore' | 'failCount' | 'failingSince' | 'lastRunAt'
      > & {
        readonly isDone: boolean
        readonly wasRemoving: boolean
        readonly dueAt: number | null
        readonly scanAt: number | null
        readonly lastOkAt: number | null
        readonly allowedDeletes: number
        readonly dueIfChanged: number
      },
    ): Promise<boolean> {
      const [isDone, wasRemoving] = [end.isDone ? 1 : 0, end.wasRemoving ? 1 : 0]
      // A change that arrived meanwhile may have fixed a problem of the source.
      const isOfSource = end.reason === 'source' ? 1 : 0
      const changed = await db.count(sql`
        update sync set lease_until = null, run = null, last_error = ${end.lastError}, reason = ${end.reason},
          state = case when state in ('paused', 'removing') then state else ${end.state} end,
          trigger_next = case
            when ${isDone} = 0 or change_count = ${sync.changeCount} then ${end.triggerNext} else 'change' end,
          not_before = ${end.notBefore}, fail_count = ${end.failCount}, failing_since = ${end.failingSince},
          last_run_at = ${end.lastRunAt}, last_ok_at = coalesce(cast(${end.lastOkAt} as bigint), last_ok_at),
          allowed_deletes = ${end.allowedDeletes}, scan_at = ${end.scanAt},
          changed_at = case
            when ${isDone} = 1 and change_count = ${sync.changeCount} then null
            when ${isDone} = 1 then cast(${end.lastRunAt} as bigint)
            else changed_at end,
          due_at = case
            when state = 'paused' then null
            when state = 'removing' and ${wasRemoving} = 0 then due_at
            when (${isDone} = 1 or ${isOfSource} = 1) and change_count <> ${sync.changeCount}
              then cast(${end.dueIfChanged} as bigint)
            else cast(${end.dueAt} as bigint) end
        where id = ${sync.id} and fence = ${sync.fence}`)
      return changed === 1
    },

    /** Removes setups that nobody finished, with everything entered in them. */
    async removeAbandoned(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from sync where id in (
          select id from sync where draft_until <= ${nowMs} and state = 'draft' limit ${limit} ${skipLocked})`)
    },

    /** Drops unfinished edits of syncs that are already set up. */
    async forgetAbandonedEdits(nowMs: number, limit: number): Promise<number> {
      const rows = await db.all<SealedSync>(sql`
        select ${columns} from sync where draft_until <= ${nowMs} and state <> 'draft' limit ${limit} ${skipLocked}`)
      for (const row of rows) {
        const content = await openIfGenuine(row)
        if (content) {
          const { version, sealed } = await sealContent(row, { live: content.live, draft: null })
          db.write(sql`
            update sync set sealed = ${sealed}, workspace_key_version = ${version}
            where id = ${row.id} and workspace_id = ${row.workspaceId}`)
        }
        // A record that cannot be opened is not retried forever; `doctor` reports it.
        db.write(sql`update sync set draft_until = null where id = ${row.id}`)
      }
      return rows.length
    },

    async countTampered(): Promise<number> {
      let count = 0
      let after = ''
      for (;;) {
        const rows = await db.all<SealedSync>(sql`
          select ${columns} from sync where id > ${after} order by id limit 500`)
        for (const row of rows) if (!(await openIfGenuine(row))) count += 1
        after = rows.at(-1)?.id ?? ''
        if (after === '') return count
      }
    },

    /** For metrics: time of the oldest change that has not reached its target. */
    async oldestChange(): Promise<number | undefined> {
      const row = await db.one<{ at: number | null }>(sql`
        select min(changed_at) as at from sync where due_at is not null and changed_at is not null`)
      return row?.at ?? undefined
    },

    async reseal(workspaceId: string, limit: number): Promise<number> {
      const newest = await requireWorkspaceKey(db, keys, workspaceId)
      const rows = await db.all<SealedSync>(sql`
        select ${columns} from sync
        where workspace_id = ${workspaceId} and workspace_key_version < ${newest.version} order by id limit ${limit}
        ${forUpdate}`)
      for (const row of rows) {
        const { version, sealed } = await sealContent(row, await openContent(row))
        db.write(sql`
          update sync set sealed = ${sealed}, workspace_key_version = ${version}
          where id = ${row.id} and workspace_id = ${workspaceId}`)
      }
      return rows.length
    },
  }
}

function contentPlace(sync: SyncRecord): Buffer {
  const { workspaceId, projectId, id, provider, environmentId, createdBy } = sync
  return associatedData('sync', workspaceId, projectId, id, provider, environmentId ?? '', createdBy)
}
