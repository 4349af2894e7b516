/**
 * The path of a request: its route is found, it is identified, its body is read, what it asks is validated, and one domain
 * call makes the answer. Written on node:http itself, as every request of every client passes here.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { pipeline as pipe, Readable } from 'node:stream'
import type { Endpoint } from '@coffer/contract/endpoint'
import findMyWay from 'find-my-way'
import { confirmRights } from '../domain/access/confirm.ts'
import type { Context, Run } from '../domain/context.ts'
import { nextRun, releaseSlots } from '../domain/slot.ts'
import { StartOver } from '../domain/start-over.ts'
import { Failure } from '../failure.ts'
import { Exchange, type Payload } from './exchange.ts'
import { countedBytes, pageStalledMs, stalledMs } from './limits/byte-budget.ts'
import type { Reservations } from './limits/reservation.ts'
import { dropRest, hasBody, readJson } from './request/body.ts'

export type Method = Endpoint['method']
export type Route = {
  readonly method: Method
  readonly path: string
  /** Of the contract; undefined for what stands beside it, such as /healthz. */
  readonly endpoint?: Endpoint
  /** True for health checks, which are not rate-limited. */
  readonly isProbe?: boolean
  readonly maxBodyBytes: number
  validate(exchange: Exchange): void
  /** Resolves with the exchange itself where it holds the answer already. */
  run(exchange: Exchange): Promise<unknown>
  serialize(value: unknown): string
}

type Stages = {
  readonly reservations: Reservations
  newId(): string
  /** Who asks; nothing is awaited where all that it needs is at hand. */
  identify(exchange: Exchange): Promise<void> | undefined
  /** Checks the credential again after the request waited: for its body, or for what a new run needs. */
  identifyAgain(exchange: Exchange, run?: Run): Promise<void> | undefined
  /** Once for every answer, just before it leaves. */
  onAnswer(exchange: Exchange): void
  onError(error: unknown, exchange: Exchange): void
}

/** What a URL asks for, found and validated. */
type Meaning = { readonly store: unknown; readonly params: unknown; readonly searchParams: unknown }

const maxParamLength = 4_096
const maxRemembered = 4_000
const maxRememberedLength = 512
const maxRememberedFields = 8
export const jsonType = 'application/json; charset=utf-8'

export function createPipeline(routes: readonly Route[], stages: Stages): RequestListener {
  const router = findMyWay({ ignoreTrailingSlash: true, maxParamLength, onBadUrl: nothing, onMaxParamLength: nothing })
  for (const route of routes) router.on(route.method, route.path, nothing, route)
  router.compile()
  const { reservations } = stages
  /** What is read again and again is asked for by the same few URLs: what each means is worked out and validated once. */
  const remembered = new Map<string, Meaning>()

  function handle(request: IncomingMessage, response: ServerResponse): void {
    const exchange = new Exchange(request, response, stages.newId(), onePath(request.url ?? '/'))
    try {
      const isReadable = locate(exchange)
      const waiting = stages.identify(exchange)
      if (waiting) waiting.then(() => receive(exchange, isReadable)).catch((error) => fail(error, exchange))
      else receive(exchange, isReadable)
    } catch (error) {
      fail(error, exchange)
    }
  }

  /** False for a URL that cannot be decoded. */
  function locate(exchange: Exchange): boolean {
    const { method, url } = exchange
    const known = method === 'GET' ? remembered.get(url) : undefined
    // Whoever asks only for the head gets that of the whole answer; node:http leaves out the rest.
    const found = known ?? router.find(method === 'HEAD' ? 'GET' : (method as Method), url)
    if (!found) return true
    // The store of a route is the route; nobody else is in the router.
    exchange.route = (found.store as Route | null) ?? undefined
    exchange.params = found.params
    exchange.query = found.searchParams
    exchange.isValidated = known !== undefined
    return exchange.route !== undefined
  }

  function remember({ method, url, route, params, query }: Exchange): void {
    if (method !== 'GET' || !route?.endpoint?.isCached || url.length > maxRememberedLength) return
    const fields = Object.values(Object(query))
    if (fields.length > maxRememberedFields) return
    if (remembered.size >= maxRemembered) remembered.clear()
    // Shared by all who ask so from now on.
    for (const shared of [params, query, ...fields]) Object.freeze(shared)
    remembered.set(url, { store: route, params, searchParams: query })
  }

  function receive(exchange: Exchange, isReadable: boolean): void {
    const { route } = exchange
    if (!isReadable) throw new Failure('malformed')
    if (!route) throw new Failure('notFound')
    if (route.method === 'GET' || !hasBody(exchange)) run(exchange, route)
    else readBody(exchange, route).catch((error) => fail(error, exchange))
  }

  async function readBody(exchange: Exchange, route: Route): Promise<void> {
    exchange.body = await readJson(exchange, route.maxBodyBytes, reservations.reserveBody)
    const waiting = stages.identifyAgain(exchange)
    if (waiting) await waiting
    run(exchange, route)
  }

  function run(exchange: Exchange, route: Route): void {
    if (!exchange.isValidated) {
      route.validate(exchange)
      remember(exchange)
    }
    if (route.method !== 'GET') reservations.requireRoom(exchange)
    attempt(exchange, route)
  }

  function attempt(exchange: Exchange, route: Route): void {
    route.run(exchange).then(
      (value) => conclude(exchange, route, value),
      (error) => refuse(exchange, route, error),
    )
  }

  /** An answer leaves only by rights that still hold; what has committed was confirmed within its transaction. */
  function conclude(exchange: Exchange, route: Route, value: unknown): void {
    const isOpen = route.endpoint && !exchange.ctx.run.hasCommitted
    const confirming = isOpen ? confirmRights(exchange.ctx) : undefined
    if (!confirming) finish(exchange, route, value)
    else
      confirming.then(
        () => finish(exchange, route, value),
        (error) => refuse(exchange, route, error),
      )
  }

  function refuse(exchange: Exchange, route: Route, error: unknown): void {
    if (error instanceof StartOver) startOver(exchange, route, error).catch((reason) => fail(reason, exchange))
    else fail(error, exchange)
  }

  /** Nothing that was read, or allowed, before the wait is used after it. */
  async function startOver(exchange: Exchange, route: Route, reason: StartOver): Promise<void> {
    exchange.room?.release()
    exchange.room = undefined
    exchange.isOwed = false
    exchange.forgetAnswer()
    const run = await nextRun(exchange.ctx, reason)
    try {
      await stages.identifyAgain(exchange, run)
    } catch (error) {
      releaseSlots({ run })
      throw error
    }
    attempt(exchange, route)
  }

  function finish(exchange: Exchange, route: Route, value: unknown): void {
    try {
      if (route.endpoint) releaseSlots(exchange.ctx)
      // A change that is made is not refused any more: a share that was read for the last time is gone.
      if (route.method !== 'GET') exchange.isOwed = true
      if (value !== exchange) {
        exchange.payload = route.serialize(value)
        exchange.answerHeaders['content-type'] ??= jsonType
      }
      answer(exchange)
    } catch (error) {
      fail(error, exchange)
    }
  }

  function fail(error: unknown, exchange: Exchange): void {
    const { response, ctx }: { response: ServerResponse; ctx: Context | undefined } = exchange
    exchange.room?.release()
    exchange.room = undefined
    try {
      if (ctx) releaseSlots(ctx)
      stages.onError(error, exchange)
      if (!response.headersSent) answer(exchange)
      // Half of an answer must not pass for a whole one.
      else response.destroy()
    } catch {
      response.destroy()
    }
  }

  function answer(exchange: Exchange): void {
    const { payload, statusCode, answerHeaders, route } = exchange
    if (!(payload instanceof Readable)) {
      if (payload !== undefined) answerHeaders['content-length'] ??= Buffer.byteLength(payload)
      else if (statusCode !== 304) answerHeaders['content-length'] = 0
    }
    const bytes = Number(answerHeaders['content-length'] ?? 0)
    // A page shares its bytes with all who read it: nothing is held for one reader.
    const waiting = route?.endpoint && reservations.reserveResponse(exchange, bytes)
    if (waiting) sendAfter(waiting, exchange).catch((error) => refuse(exchange, route, error))
    else send(exchange)
  }

  /** Rights may have ended during the wait; a change that is made is answered all the same. */
  async function sendAfter(waiting: Promise<void>, exchange: Exchange): Promise<void> {
    await waiting
    if (!exchange.isOwed) await confirmRights(exchange.ctx)
    send(exchange)
  }

  function send(exchange: Exchange): void {
    const { response, payload, statusCode, answerHeaders, method } = exchange
    if (method !== 'HEAD') watchReader(exchange)
    stages.onAnswer(exchange)
    if (payload instanceof Readable) {
      response.writeHead(statusCode, answerHeaders)
      if (method === 'HEAD') {
        payload.destroy()
        response.end()
        return
      }
      pipe(payload, response, (error) => error && !isHungUp(error) && fail(error, exchange))
      return
    }
    response.writeHead(statusCode, answerHeaders)
    if (exchange.isBodyLeft) {
      response.write(payload ?? '')
      dropRest(exchange).then(() => response.end())
    } else if (payload !== undefined && Number(answerHeaders['content-length']) > pieceBytes)
      sendInPieces(response, typeof payload === 'string' ? Buffer.from(payload) : payload)
    else response.end(payload, encodingOf(payload, answerHeaders['content-length']))
  }

  return handle
}

const nothing = () => undefined

/** Ends the connection of a reader that stalls: at once where others need the room, or else after a while. */
function watchReader({ room, response, socket, payload, route, answerHeaders }: Exchange): void {
  const isSmall = Number(answerHeaders['content-length'] ?? 0) < countedBytes
  if (isSmall && !(payload instanceof Readable)) return
  response.setTimeout(route?.endpoint ? stalledMs : pageStalledMs)
  if (!room) return
  room.begin(() => socket.destroy())
  let writtenBytes = socket.bytesWritten
  response.on('drain', () => {
    room.moved(socket.bytesWritten - writtenBytes)
    writtenBytes = socket.bytesWritten
  })
}

const pieceBytes = 256 * 1024

/** A `drain` after each piece shows that the client reads. */
function sendInPieces(response: ServerResponse, bytes: Uint8Array): void {
  let at = 0
  const next = () => {
    while (bytes.length - at > pieceBytes) {
      const piece = bytes.subarray(at, at + pieceBytes)
      at += pieceBytes
      if (!response.write(piece)) {
        response.once('drain', next)
        return
      }
    }
    response.end(bytes.subarray(at))
  }
  next()
}

/** Text of one byte a letter takes half of the time to send as such. */
const encodingOf = (payload: Payload | undefined, bytes: string | number | undefined) =>
  typeof payload === 'string' && payload.length === bytes ? 'latin1' : 'utf8'

const isHungUp = ({ code }: NodeJS.ErrnoException) => code === 'ERR_STREAM_PREMATURE_CLOSE'

/** One spelling for each path: without scheme and host (RFC 9112, 3.2.2), letters and digits not percent-encoded. */
function onePath(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '') || '/'
  return path.includes('%') ? path.replace(/%(?:2d|2e|3\d|[46][1-9a-f]|[57][0-9a]|5f|7e)/gi, decodeURIComponent) : path
}
