/** Reads the lists of a bucket page by page. The service that answers is not trusted: no list goes on for ever. */
import { elementsIn, tagIn, unescapeXml } from '../../../xml-text.ts'
import type { S3Client } from './s3-request.ts'
import { TargetError } from './target.ts'

/** What S3 puts on a page at most. */
const maxElements = 1_000
/** A hundred thousand files: more than a thousand backups of each kind, and those of a year in which none could be removed. */
const maxPages = 100
/** Keys have 1,024 bytes at most, and positions are made of them. */
const maxPositionLength = 8_192

type ListRequest<Entry> = {
  readonly key?: string
  readonly query: Readonly<Record<string, string>>
  /** Name of the answer's outermost element, and of those that are listed. */
  readonly root: string
  readonly element: string
  /** Undefined leaves the element out. A text in the entry keeps its whole page in memory, unless it is copied. */
  readonly read: (element: string) => Entry | undefined
  /** Query of the page after this one; undefined if it names none. */
  readonly next: (page: string) => Readonly<Record<string, string>> | undefined
  readonly signal: AbortSignal | undefined
}

export async function listEntries<Entry>(client: S3Client, request: ListRequest<Entry>): Promise<Entry[]> {
  const { key, query, root, element, read, next, signal } = request
  const broken = (what: string) => new TargetError(`The backup target ${client.name} sent a list that ${what}.`)
  const found: Entry[] = []
  const seen = new Set<string>()
  let position: Readonly<Record<string, string>> = {}
  for (let page = 1; page <= maxPages; page++) {
    const { text } = await client.send({
      method: 'GET',
      ...(key !== undefined && { key }),
      query: { ...query, ...position },
      signal,
    })
    if (!text.includes(`</${root}>`)) throw broken('is cut off')
    const elements = elementsIn(text, element, maxElements + 1)
    if (elements.length > maxElements) throw broken(`has more than ${maxElements} entries on a page`)
    for (const one of elements) {
      const entry = read(one)
      if (entry !== undefined) found.push(entry)
    }
    const following = tagIn(text, 'IsTruncated') === 'true' ? next(text) : undefined
    if (following === undefined) return found
    const name = JSON.stringify(following)
    if (seen.has(name) || name.length > maxPositionLength) throw broken('repeats itself')
    seen.add(name)
    position = following
  }
  throw broken(`has more than ${maxPages} pages: give each installation a prefix of its own`)
}

/** Text of a tag, unescaped, and copied so that the page around it can be freed. */
export const copyOf = (element: string, tag: string): string =>
  Buffer.from(unescapeXml(tagIn(element, tag) ?? '')).toString()
