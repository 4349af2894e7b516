/** Bodies are UTF-8 JSON, not compressed, up to 8 MiB; text that is not well-formed Unicode is refused. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Failure } from '../failure.ts'

export const maxBodyBytes = 8 * 1024 * 1024

const decoder = new TextDecoder('utf-8', { fatal: true })

export function acceptJson(app: FastifyInstance): void {
  // JSON.parse makes `__proto__` a field like any other; every body schema is closed and refuses it by its name.
  const parseText = app.getDefaultJsonParser('ignore', 'ignore')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      refuseOtherEncodings(request)
      const text = decode(body)
      if (text.trim() === '') return done(null, undefined)
      parseText(request, text, (_error: Error | null, value?: unknown) => {
        // The parser's own message quotes its input.
        if (_error) return done(new Failure('malformed', 'body: is not valid JSON.'))
        if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) return done(notUnicode())
        return done(null, value)
      })
    } catch (error) {
      done(error instanceof Error ? error : new Failure('malformed'))
    }
  })
}

function refuseOtherEncodings(request: FastifyRequest): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
  const encoding = request.headers['content-encoding']
  const isPlain = encoding === undefined || encoding.toLowerCase() === 'identity'
  if (!isPlain || (charset !== undefined && !/^utf-?8$/i.test(charset))) throw new Failure('unsupportedMediaType')
}

function decode(body: Buffer | string): string {
  try {
    return decoder.decode(typeof body === 'string' ? Buffer.from(body) : body)
  } catch {
    throw new Failure('malformed', 'body: is not valid UTF-8.')
  }
}

function notUnicode(): Failure {
  return new Failure('invalid', 'body: holds half of a surrogate pair, which is not a character.')
}

/** A loop and not a recursion: nesting is the sender's choice. */
function isWellFormed(value: unknown): boolean {
  const pending: unknown[] = [value]
  while (pending.length > 0) {
    const next = pending.pop()
    if (typeof next === 'string' && !next.isWellFormed()) return false
    if (Array.isArray(next)) for (const item of next) pending.push(item)
    else if (typeof next === 'object' && next !== null) {
      for (const [key, item] of Object.entries(next)) pending.push(key, item)
    }
  }
  return true
}
