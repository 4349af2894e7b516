/** Reads plain HTTP/1.1 responses: a length or simple chunks, and nothing that two readers could understand differently. */
import type { nodeTransport } from '@coffer/sdk/node'

export type Response = Awaited<ReturnType<typeof nodeTransport>>

type ResponseReader = {
  take(chunk: Buffer): Response | 'incomplete' | 'doubtful'
}

type Head = {
  readonly status: number
  readonly fields: ReadonlyMap<string, string>
  /** Undefined for a body in chunks. */
  readonly bodyBytes: number | undefined
}

const maxHeadBytes = 16_384

export function createResponseReader(maxBytes: number): ResponseReader {
  const received: Buffer[] = []
  let length = 0
  let bodyAt = 0
  let head: Head | undefined
  return {
    take(chunk) {
      received.push(chunk)
      length += chunk.length
      if (!head) {
        const bytes = Buffer.concat(received)
        bodyAt = bytes.indexOf('\r\n\r\n') + 4
        if (bodyAt < 4) return length > maxHeadBytes ? 'doubtful' : 'incomplete'
        head = parseHead(bytes.toString('latin1', 0, bodyAt - 4))
      }
      const end = bodyAt + (head?.bodyBytes ?? maxBytes)
      if (!head || end > bodyAt + maxBytes || length > end) return 'doubtful'
      // A body in chunks is looked at again only when it may be complete.
      if (head.bodyBytes === undefined ? !endsWith(received, '\r\n\r\n') : length < end) return 'incomplete'
      const rest = Buffer.concat(received).subarray(bodyAt)
      const body = head.bodyBytes === undefined ? joinChunks(rest) : rest
      if (typeof body === 'string') return body
      const { status, fields } = head
      return { status, header: (name) => fields.get(name), body: body.toString('utf8') }
    },
  }
}

/** Fields that say how long the body is. */
const framing = ['content-length', 'transfer-encoding']

/** Undefined unless the head says plainly how long the body is. */
function parseHead(text: string): Head | undefined {
  const [first = '', ...lines] = text.split('\r\n')
  const status = Number(/^HTTP\/1\.1 ([2-5]\d\d) /.exec(first)?.[1])
  const fields = new Map<string, string>()
  for (const line of lines) {
    const name = /^[\w!#$%&'*+.^`|~-]+(?=:)/.exec(line)?.[0].toLowerCase() ?? ''
    const value = line.slice(name.length + 1).trim()
    const isRepeated = fields.has(name)
    if (name === '' || (isRepeated && framing.includes(name)) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      return undefined
    if (!isRepeated) fields.set(name, value)
  }
  const [size, coding] = framing.map((name) => fields.get(name))
  if (!status || (size !== undefined && coding !== undefined)) return undefined
  if (status === 204 || status === 304) return { status, fields, bodyBytes: 0 }
  if (coding === 'chunked') return { status, fields, bodyBytes: undefined }
  return coding === undefined && /^\d{1,15}$/.test(size ?? '') ? { status, fields, bodyBytes: Number(size) } : undefined
}

function endsWith(received: readonly Buffer[], end: string): boolean {
  return Buffer.concat(received.slice(-end.length)).toString('latin1').endsWith(end)
}

/** Chunks without extensions and trailers. */
function joinChunks(bytes: Buffer): Buffer | 'incomplete' | 'doubtful' {
  const parts: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = /^([0-9a-f]{1,8})\r\n/i.exec(bytes.toString('latin1', at, at + 10))?.[1]
    if (size === undefined) return 'doubtful'
    const from = at + size.length + 2
    const to = from + Number.parseInt(size, 16)
    if (to + 2 > bytes.length) return 'incomplete'
    if (bytes.toString('latin1', to, to + 2) !== '\r\n') return 'doubtful'
    if (to === from) return to + 2 === bytes.length ? Buffer.concat(parts) : 'doubtful'
    parts.push(bytes.subarray(from, to))
    at = to + 2
  }
  return 'incomplete'
}
