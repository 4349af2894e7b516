/**
 * Cached responses. They contain plaintext in the memory of this process, are limited in total size, and are valid only
 * while the workspace snapshot and the environments they were built from are unchanged.
 */
import type { CompactDetails } from '../../store/audit/key-list.ts'
import type { Epochs } from './environment-version.ts'
import type { Picture } from './workspace-snapshot.ts'

export type Answer = {
  readonly body: string
  readonly etag: string
  /** Details for the audit entry; undefined if the response contains no values. */
  readonly auditDetails: CompactDetails | undefined
  /** The secret that the response is about, if there is exactly one. */
  readonly entity: { readonly id: string; readonly name: string }
}
export type CachedResponse = Omit<Answer, 'body'> & { readonly body: string | Buffer; readonly bytes: number }

type Dependency = { readonly environmentId: string; readonly epoch: number }
type Kept = CachedResponse & { readonly picture: Picture; readonly dependencies: readonly Dependency[] }

export type ResponseCache = {
  find(key: string, picture: Picture): CachedResponse | undefined
  keep(key: string, picture: Picture, dependencies: readonly Dependency[], answer: Answer): void
}

const maxBytes = 32 * 1024 * 1024
const maxAnswerBytes = 1024 * 1024
/** Small bodies are sent fastest as a string, in one write with the headers; larger ones as a buffer. */
const maxTextBytes = 64 * 1024

export function createResponseCache(epochs: Epochs): ResponseCache {
  const kept = new Map<string, Kept>()
  let bytes = 0

  // V8 stores a string with any character beyond Latin-1 at two bytes per character.
  const sizeOf = (name: string, entry: Kept) => name.length + 2 * entry.bytes + detailsLength(entry) + 300

  const detailsLength = ({ auditDetails: { text, lists } = { text: '', lists: [] } }: Kept) =>
    lists.reduce((length, list) => length + list.text.length, text.length)

  function isCurrent({ dependencies }: Kept): boolean {
    for (const { environmentId, epoch } of dependencies) if (epochs.of(environmentId) !== epoch) return false
    return true
  }

  function drop(name: string, entry: Kept): void {
    kept.delete(name)
    bytes -= sizeOf(name, entry)
  }

  return {
    find(name, picture) {
      const entry = kept.get(name)
      if (!entry || (entry.picture === picture && isCurrent(entry))) return entry
      drop(name, entry)
      return undefined
    },
    keep(name, picture, dependencies, answer) {
      const old = kept.get(name)
      if (old) drop(name, old)
      if (answer.body.length > maxAnswerBytes) return
      const { etag, auditDetails, entity } = answer
      const encoded = Buffer.from(answer.body, 'utf8')
      const body = encoded.length > maxTextBytes ? encoded : answer.body
      const entry = { body, bytes: encoded.length, etag, auditDetails, entity, picture, dependencies }
      kept.set(name, entry)
      bytes += sizeOf(name, entry)
      for (const [oldest, stale] of kept) {
        if (bytes <= maxBytes) break
        drop(oldest, stale)
      }
    },
  }
}
