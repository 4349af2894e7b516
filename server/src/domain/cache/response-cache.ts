/**
 * Cached responses. They contain plaintext in the memory of this process, are limited in total size, and are valid only
 * while the workspace snapshot and the environments they were built from are unchanged.
 */
import type { CompactDetails, KeyList } from '../../store/audit/key-list.ts'
import type { EnvironmentVersions } from './environment-version.ts'
import type { WorkspaceSnapshot } from './workspace-snapshot.ts'

export type Answer = {
  readonly body: string
  readonly etag: string
  /** Details for the audit entry; undefined if the response contains no values. */
  readonly auditDetails: CompactDetails | undefined
  /** The secret that the response is about, if there is exactly one. */
  readonly entity: { readonly id: string; readonly name: string }
}
export type CachedResponse = Omit<Answer, 'body'> & { readonly body: string | Buffer; readonly bytes: number }

export type Dependency = { readonly environmentId: string; readonly version: number }
type Kept = CachedResponse & { readonly snapshot: symbol; readonly dependencies: readonly Dependency[] }

export type ResponseCache = {
  /** Makes a response, unless somebody makes the same one now: then waits for its end, and returns undefined. */
  makeAlone<Made>(key: string, make: () => Promise<Made>): Promise<Made | undefined>
  find(key: string, snapshot: WorkspaceSnapshot): CachedResponse | undefined
  keep(key: string, snapshot: WorkspaceSnapshot, dependencies: readonly Dependency[], answer: Answer): void
  clear(): void
}

const maxBytes = 32 * 1024 * 1024
const maxAnswerBytes = 1024 * 1024
/** Small bodies are sent fastest as a string, in one write with the headers; larger ones as a buffer. */
const maxTextBytes = 64 * 1024

const nothing = () => undefined

export function createResponseCache(environmentVersions: EnvironmentVersions): ResponseCache {
  const kept = new Map<string, Kept>()
  const making = new Map<string, Promise<unknown>>()
  let bytes = 0

  // V8 stores a string with any character beyond Latin-1 at two bytes per character.
  const sizeOf = (name: string, { bytes, auditDetails }: Kept) =>
    name.length + 2 * bytes + (auditDetails?.text.length ?? 0) + 300

  /** How many responses hold a key list. Shared lists count once: they are longer than most responses. */
  const holders = new Map<KeyList, number>()

  function holdLists(lists: readonly KeyList[], change: 1 | -1): void {
    for (const list of lists) {
      const before = holders.get(list) ?? 0
      const after = before + change
      if (after > 0) holders.set(list, after)
      else holders.delete(list)
      if (before === 0 || after === 0) bytes += change * list.text.length
    }
  }

  function isCurrent({ dependencies }: Kept): boolean {
    for (const { environmentId, version } of dependencies)
      if (environmentVersions.of(environmentId) !== version) return false
    return true
  }

  function drop(name: string, entry: Kept): void {
    kept.delete(name)
    bytes -= sizeOf(name, entry)
    holdLists(entry.auditDetails?.lists ?? [], -1)
  }

  return {
    async makeAlone(name, make) {
      const running = making.get(name)
      if (running) return running.then(nothing, nothing)
      const made = make()
      making.set(name, made)
      try {
        return await made
      } finally {
        making.delete(name)
      }
    },
    find(name, snapshot) {
      const entry = kept.get(name)
      if (!entry || (entry.snapshot === snapshot.identity && isCurrent(entry))) return entry
      drop(name, entry)
      return undefined
    },
    keep(name, snapshot, dependencies, answer) {
      const old = kept.get(name)
      if (old) drop(name, old)
      if (answer.body.length > maxAnswerBytes) return
      const { etag, auditDetails, entity } = answer
      const encoded = Buffer.from(answer.body, 'utf8')
      const body = encoded.length > maxTextBytes ? encoded : answer.body
      const made = { body, bytes: encoded.length, etag, auditDetails, entity }
      const entry = { ...made, snapshot: snapshot.identity, dependencies }
      kept.set(name, entry)
      bytes += sizeOf(name, entry)
      holdLists(auditDetails?.lists ?? [], 1)
      for (const [oldest, stale] of kept) {
        if (bytes <= maxBytes) break
        drop(oldest, stale)
      }
    },
    clear() {
      for (const [name, entry] of kept) drop(name, entry)
    },
  }
}
