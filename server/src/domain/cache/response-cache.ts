/**
 * Responses that were given before, ready to be given again. They hold plaintext, as does everything else that this
 * process works on; they are bounded in size, and valid only while nothing that they were made from has changed.
 */
import type { ReadDetails } from '../audit/read.ts'
import type { Pieces } from '../secret/pieces.ts'
import type { Epochs } from './environment-version.ts'
import type { Picture } from './workspace-snapshot.ts'

export type Answer = {
  readonly body: string
  readonly etag: string
  /** What the audit trail says of it; undefined where no value is in it. */
  readonly auditDetails: ReadDetails | undefined
  /** The one secret that it is about, if it is about one. */
  readonly entity: { readonly id: string; readonly name: string }
}
/** A response whose body is not read yet: a matching ETag needs no more than this. */
export type CachedResponse = Omit<Answer, 'body'> & {
  /** The length of its body. */
  readonly bytes: number
  open(): string | Buffer | Pieces
}

type Dependency = { readonly environmentId: string; readonly epoch: number }
type Kept = {
  readonly body: string | Buffer
  readonly bytes: number
  readonly etag: string
  readonly auditDetails: ReadDetails | undefined
  readonly entity: { readonly id: string; readonly name: string }
  readonly picture: Picture
  readonly dependencies: readonly Dependency[]
}

export type ResponseCache = {
  find(key: string, picture: Picture): CachedResponse | undefined
  keep(key: string, picture: Picture, dependencies: readonly Dependency[], answer: Answer): void
}

const maxBytes = 32 * 1024 * 1024
const maxAnswerBytes = 1024 * 1024
/** Up to here an answer is sent fastest as text, in one piece with its headers; beyond it, as bytes. */
const maxTextBytes = 64 * 1024

export function createResponseCache(epochs: Epochs): ResponseCache {
  const kept = new Map<string, Kept>()
  let bytes = 0

  // A text with a character beyond Latin-1 takes two bytes for each.
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
      if (!entry) return undefined
      if (entry.picture !== picture || !isCurrent(entry)) {
        drop(name, entry)
        return undefined
      }
      const { etag, auditDetails, entity, body, bytes } = entry
      return { etag, auditDetails, entity, bytes, open: () => body }
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
