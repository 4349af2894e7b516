/**
 * Changes that a transaction of this node has announced and that may or may not be committed yet. PostgreSQL can grant a
 * waiting transaction its lock before this node learns that the commit of the former holder succeeded.
 */
import type { ChangeSubject } from '../../store/change.ts'

export type PendingChanges = {
  /** Returns the function that ends it, to be called once the caches know the outcome. */
  begin(subject: ChangeSubject, id: string): () => void
  has(subject: ChangeSubject, id: string): boolean
}

export function createPendingChanges(): PendingChanges {
  const counts = new Map<string, number>()
  const nameOf = (subject: ChangeSubject, id: string) => `${subject}:${id}`
  const add = (name: string, difference: number) => {
    const count = (counts.get(name) ?? 0) + difference
    if (count > 0) counts.set(name, count)
    else counts.delete(name)
  }
  return {
    begin(subject, id) {
      const name = nameOf(subject, id)
      add(name, 1)
      return () => add(name, -1)
    },
    has: (subject, id) => counts.size > 0 && counts.has(nameOf(subject, id)),
  }
}
