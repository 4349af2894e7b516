/**
 * Log of changes that every node polls, so that no cache is more than a second stale. A change row commits with the
 * change itself.
 */
import { anyOf, type Db, sql } from './engine/sql.ts'

export type ChangeSubject = 'workspace' | 'environment' | 'user' | 'keyring'
export type Change = { readonly sequence: number; readonly subject: ChangeSubject; readonly subjectId: string }

/** A change of values concerns an environment and, because secrets are counted there, its workspace: one id for both. */
export const environmentSubject = (workspaceId: string, environmentId: string): string =>
  `${workspaceId}:${environmentId}`

export function readEnvironmentSubject(subjectId: string): { workspaceId: string; environmentId: string } {
  const [workspaceId = '', environmentId = ''] = subjectId.split(':')
  return { workspaceId, environmentId }
}

/** Rows per query; a full result means there may be more. */
export const maxListed = 10_000

export function changeStore(db: Db) {
  return {
    append(subject: ChangeSubject, subjectId: string, nowMs: number): void {
      db.write(sql`insert into change (subject, subject_id, at) values (${subject}, ${subjectId}, ${nowMs})`)
    },

    async newest(): Promise<number> {
      const row = await db.one<{ sequence: number }>(sql`select coalesce(max(sequence), 0) as sequence from change`)
      return row?.sequence ?? 0
    },

    /** Rows with a lower sequence were already removed. */
    async oldest(): Promise<number> {
      const row = await db.one<{ sequence: number }>(sql`select coalesce(min(sequence), 0) as sequence from change`)
      return row?.sequence ?? 0
    },

    async listAfter(sequence: number): Promise<Change[]> {
      return db.all<Change>(sql`
        select sequence, subject, subject_id as "subjectId" from change
        where sequence > ${sequence} order by sequence limit ${maxListed}`)
    },

    /** `sequences` must be in ascending order. */
    async listOnly(sequences: readonly number[]): Promise<Change[]> {
      return db.all<Change>(sql`
        select sequence, subject, subject_id as "subjectId" from change
        where sequence between ${sequences[0] ?? 0} and ${sequences.at(-1) ?? 0}
          and cast(sequence as text) ${anyOf(sequences.map(String))}
        order by sequence`)
    },

    async removeBefore(beforeMs: number): Promise<number> {
      return db.count(sql`delete from change where at < ${beforeMs}`)
    },
  }
}
