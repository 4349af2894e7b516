/** Lists the changes of an edit by name, and applies them to the secrets as others have changed them meanwhile. */
import type { SecretBatch } from '@coffer/sdk'

export type Stored = { readonly value: string; readonly version: number; readonly note: string }
export type State = ReadonlyMap<string, Stored>

export type Changes = {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly removed: readonly string[]
  readonly same: readonly string[]
}

export function compare(base: State, edited: ReadonlyMap<string, string>): Changes {
  const kept = [...base.keys()].filter((key) => edited.has(key))
  return {
    added: [...edited.keys()].filter((key) => !base.has(key)),
    changed: kept.filter((key) => base.get(key)?.value !== edited.get(key)),
    removed: [...base.keys()].filter((key) => !edited.has(key)),
    same: kept.filter((key) => base.get(key)?.value === edited.get(key)),
  }
}

export const namesOf = ({ added, changed, removed }: Changes): string[] => [...added, ...changed, ...removed]

/** Each operation names the version that was read, so that a change of somebody else is a conflict. */
export function operationsOf(
  base: State,
  edited: ReadonlyMap<string, string>,
  { added, changed, removed }: Changes,
): SecretBatch['operations'] {
  const ifVersion = (key: string) => base.get(key)?.version ?? 0
  return [
    ...[...added, ...changed].map((key) => ({
      op: 'set' as const,
      key,
      value: edited.get(key) ?? '',
      ifVersion: ifVersion(key),
    })),
    ...removed.map((key) => ({ op: 'delete' as const, key, ifVersion: ifVersion(key) })),
  ]
}

/** The edited values of `changes` over the current state; all other keys as they are now. */
export function reapply(current: State, edited: ReadonlyMap<string, string>, changes: Changes): Map<string, string> {
  const merged = new Map([...current].map(([key, { value }]) => [key, value]))
  for (const key of [...changes.added, ...changes.changed]) merged.set(key, edited.get(key) ?? '')
  for (const key of changes.removed) merged.delete(key)
  return merged
}

/** Edited keys that somebody else has changed since `base` was read. */
export const conflictsOf = (base: State, current: State, changes: Changes): string[] =>
  namesOf(changes).filter((key) => base.get(key)?.version !== current.get(key)?.version)
