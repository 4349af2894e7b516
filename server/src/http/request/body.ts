/** Reads request bodies: UTF-8 JSON, not compressed, up to 8 MiB. Text that is not well-formed Unicode is refused. */
import type { IncomingMessage } from 'node:http'
import { Failure } from '../../failure.ts'
import { findRepeatedName, findRepeatedNameInPortions } from '../../json-name.ts'
import type { Exchange } from '../exchange.ts'
import { countedBytes, type Reservation } from '../limits/byte-budget.ts'
import type { Reservations } from '../limits/reservation.ts'

export const maxBodyBytes = 8 * 1024 * 1024

const decoder = new TextDecoder('utf-8', { fatal: true })

export function hasBody({ headers }: Exchange): boolean {
  const length = headers['content-length']
  return length === undefined ? headers['transfer-encoding'] !== undefined : Number(length) > 0
}

/** Returns undefined for a body of only white space. */
export async function readJson(
  exchange: Exchange,
  limit: number,
  reserve: Reservations['reserveBody'],
): Promise<unknown> {
  const { request, headers } = exchange
  const type = headers['content-type']
  if (type === undefined || !isJson(type)) {
    if (headers['content-length'] === undefined && (await isEmpty(request))) return undefined
    throw new Failure('unsupportedMediaType')
  }
  if (Number(headers['content-length'] ?? 0) > limit) throw leaveRest(exchange, tooLarge(limit))
  const bytes = await readBytes(exchange, limit, reserve)
  refuseOtherEncodings(type, headers['content-encoding'])
  const { giveWay, nextPortion } = exchange.ctx.longWork
  if (bytes.length > largeBytes) {
    refuseUnwieldy(bytes)
    // Parsing is one step: of several large bodies, each has a turn of its own.
    await nextPortion()
  }
  const text = decode(bytes)
  if (text.trim() === '') return undefined
  const value = parse(text)
  refuseRepeated(bytes.length > largeBytes ? await findRepeatedNameInPortions(text, giveWay) : findRepeatedName(text))
  return value
}

const isJson = (type: string) => /^\s*application\/json\s*(?:;|$)/i.test(type)

/** For a chunked body without a JSON content type: only the end of the stream shows whether it is empty. */
function isEmpty(request: IncomingMessage): Promise<boolean> {
  return new Promise((resolve, reject) => {
    request
      .once('data', () => resolve(false))
      .once('end', () => resolve(true))
      .once('error', () => reject(new Failure('malformed')))
  })
}

/** Step in which room is reserved for a body of unknown length. */
const stepBytes = 1024 * 1024

function readBytes(exchange: Exchange, limit: number, reserve: Reservations['reserveBody']): Promise<Buffer> {
  const { request, headers } = exchange
  const declared = headers['content-length']
  const expected = Number(declared ?? limit)
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  let whole: Buffer = Buffer.alloc(0)
  let length = 0
  const reservations: Reservation[] = []
  let reservedBytes = 0
  let isOver = false

  function end(): void {
    isOver = true
    for (const reservation of reservations) reservation.release()
  }

  function refuse(error: unknown): void {
    if (isOver) return
    request.removeAllListeners('data').removeAllListeners('end').pause()
    end()
    reject(leaveRest(exchange, error))
  }

  /** Pauses the sender until there is room. */
  async function reserveMore(bytes: number): Promise<void> {
    request.pause()
    reservedBytes += bytes
    const reservation = await reserve(exchange, bytes)
    if (isOver) {
      reservation.release()
      return
    }
    reservations.push(reservation)
    reservation.begin(() => refuse(new Failure('overloaded')))
    request.resume()
  }

  request
    .on('data', (chunk: Buffer) => {
      const end = length + chunk.length
      if (end > limit) {
        refuse(tooLarge(limit))
        return
      }
      whole = length === 0 ? chunk : append(whole, length, chunk, expected)
      length = end
      for (const reservation of reservations) reservation.moved(chunk.length)
      if (end < countedBytes || end <= reservedBytes) return
      const wanted = declared === undefined ? Math.min(limit, end + stepBytes) : expected
      reserveMore(wanted - reservedBytes).catch(refuse)
    })
    .on('end', () => {
      end()
      resolve(whole.subarray(0, length))
    })
    // The connection broke, so no client is left to answer.
    .on('error', () => {
      end()
      reject(new Failure('malformed'))
    })
  return promise
}

/** Marks the exchange as answered before its body was read to the end. */
function leaveRest<Refusal>(exchange: Exchange, refusal: Refusal): Refusal {
  exchange.isBodyLeft = true
  return refusal
}

/**
 * Appends to a buffer that doubles when full. The sender chooses the chunk size, and one buffer per tiny chunk would
 * cost far more memory than its bytes.
 */
function append(whole: Buffer, length: number, chunk: Buffer, expected: number): Buffer {
  const end = length + chunk.length
  // Copies when full and never writes into a received chunk. The new buffer is no larger than the expected body.
  const doubled = Math.max(2 * end, minRoomBytes)
  const reservation = end > whole.length ? Buffer.concat([whole], Math.max(end, Math.min(doubled, expected))) : whole
  chunk.copy(reservation, length)
  return reservation
}

const minRoomBytes = 16 * 1024

/** Limits on how much of a refused body is still read, and for how long. */
const maxDroppedBytes = 8 * maxBodyBytes
const maxDropMs = 5_000

/**
 * Reads and discards the rest of a refused body. A client that sends the whole body before it reads would otherwise get
 * a connection reset instead of the error.
 */
export async function dropRest({ request, headers }: Exchange): Promise<void> {
  if (request.complete || Number(headers['content-length'] ?? 0) > maxDroppedBytes) return
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>((resolve) => {
    let dropped = 0
    timer = setTimeout(resolve, maxDropMs)
    request.on('data', ({ length }: Buffer) => {
      dropped += length
      if (dropped > maxDroppedBytes) resolve()
    })
    for (const event of ['end', 'close', 'error']) request.on(event, () => resolve())
    request.resume()
  })
  clearTimeout(timer)
}

function tooLarge(limit: number): Failure {
  return limit === maxBodyBytes
    ? new Failure('tooLarge')
    : new Failure('tooLarge', `The request body is larger than ${limit / 1024} KiB.`)
}

function parse(text: string): unknown {
  let value: unknown
  try {
    // `__proto__` becomes a field like any other; every body schema is closed and refuses it by its name.
    value = JSON.parse(text)
  } catch {
    // The parser's own message quotes its input.
    throw new Failure('malformed', 'body: is not valid JSON.')
  }
  if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) throw notUnicode()
  return value
}

function refuseRepeated(found: ReturnType<typeof findRepeatedName>): void {
  if (found === undefined || found === 'too deep') return
  // A name that no field can have may be a value in the wrong place.
  const field = /^[A-Za-z]{1,40}$/.test(found.name) ? found.name : 'body'
  throw new Failure('malformed', field === 'body' ? 'body: has a name twice.' : `${field}: is given twice.`)
}

/** Bodies up to this size are parsed quickly, whatever they hold. */
const largeBytes = 64 * 1024
/**
 * Far more objects and lists than any endpoint accepts. Parsing millions of them would block the event loop for
 * seconds.
 */
const maxContainers = 200_000
const maxDepth = 32

const [quote, backslash, opening, closing, openingList, closingList] = Buffer.from('"\\{}[]')

function refuseUnwieldy(bytes: Buffer): void {
  let isText = false
  let depth = 0
  let containers = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (isText) {
      if (byte === backslash) at++
      else if (byte === quote) isText = false
    } else if (byte === quote) isText = true
    else if (byte === opening || byte === openingList) {
      if (++depth > maxDepth) throw new Failure('malformed', `body: is nested more than ${maxDepth} levels deep.`)
      if (++containers > maxContainers) throw new Failure('malformed', 'body: contains too many objects and lists.')
    } else if (byte === closing || byte === closingList) depth--
  }
}

function refuseOtherEncodings(type: string, encoding: string | undefined): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(type)?.[1]
  const isPlain = encoding === undefined || encoding.toLowerCase() === 'identity'
  if (!isPlain || (charset !== undefined && !/^utf-?8$/i.test(charset))) throw new Failure('unsupportedMediaType')
}

function decode(body: Buffer): string {
  try {
    return decoder.decode(body)
  } catch {
    throw new Failure('malformed', 'body: is not valid UTF-8.')
  }
}

function notUnicode(): Failure {
  return new Failure('invalid', 'body: contains an unpaired surrogate, which is not a character.')
}

/** Iterative, because the sender controls the nesting and could overflow the stack of a recursion. */
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
