/** Our owner mark as AWS tags. */
import { ownerTags } from './provider.ts'
import { maybeTextAt } from './vendor-json.ts'

export const ourTags = (syncId: string) => Object.entries(ownerTags(syncId)).map(([Key, Value]) => ({ Key, Value }))

/** `tags` as returned by AWS, which omits the field if there are none. */
export function isOurs(tags: unknown, syncId: string): boolean {
  if (!Array.isArray(tags)) return false
  return ourTags(syncId).every(({ Key, Value }) =>
    tags.some((tag) => maybeTextAt(tag, 'Key') === Key && maybeTextAt(tag, 'Value') === Value),
  )
}
