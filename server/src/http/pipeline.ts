/**
 * The path of a request: find its route, admit the caller, read the body, validate the input, make one domain call,
 * send the response. Written directly on node:http, because every request passes here.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { pipeline as pipe, Readable } from 'node:stream'
import findMyWay from 'find-my-way'
import { setBounded } from '../bounded-map.ts'
import { confirmRights } from '../domain/access/confirm.ts'
import type { Run } from '../domain/request-run.ts'
import { nextRun, releaseSlots } from '../domain/slot.ts'
import { StartOver } from '../domain/start-over.ts'
import { Failure } from '../failure.ts'
import { Exchange, type Method, type Payload, type Route } from './exchange.ts'
import { countedBytes, pageStalledMs, stalledMs } from './limits/byte-budget.ts'
import type { Reservations } from './limits/reservation.ts'
import { dropRest, hasBody, readJson } from './request/body.ts'
import { createCompressor } from './response/compress.ts'
import { jsonType } from './response/serialize.ts'

type Stages = {
  readonly reservations: Reservations
  /** Answers GET and HEAD for paths that no route has. */
  readonly fallback: Route
  newId(): string
  /** Identifies the caller. Returns undefined, instead of a promise, if everything needed is in memory. */
  admit(exchange: Exchange): Promise<void> | undefined
  /** Checks the credential again after the request waited: for its body, or for what a new run needs. */
  readmit(exchange: Exchange, run?: Run): Promise<void> | undefined
  /** Once for every answer, just before it leaves. */
  onAnswer(exchange: Exchange): void
  onError(error: unknown, exchange: Exchange): void
}

/** A URL resolved to its route, with validated parameters. */
type Meaning = { readonly store: unknown; readonly params: unknown; readonly searchParams: unknown }

const maxParamLength = 4_096
const maxRemembered = 4_000
const maxRememberedLength = 512
const maxRememberedFields = 8
export function createPipeline(routes: readonly Route[], stages: Stages): RequestListener {
  const router = findMyWay({ ignoreTrailingSlash: true, maxParamLength, onBadUrl: nothing, onMaxParamLength: nothing })
  for (const route of routes) router.on(route.method, route.path, nothing, route)
  router.compile()
  const { reservations } = stages
  const compressor = createCompressor()
  /** Cache of URLs: clients poll the same few, so each is routed and validated once. */
  const remembered = new Map<string, Meaning>()

  function handle(request: IncomingMessage, response: ServerResponse): void {
    const exchange = new Exchange(request, response, stages.newId(), onePath(request.url ?? '/'))
    try {
      const isReadable = locate(exchange)
      const waiting = stages.admit(exchange)
      if (waiting) waiting.then(() => receive(exchange, isReadable)).catch((error) => fail(error, exchange))
      else receive(exchange, isReadable)
    } catch (error) {
      fail(error, exchange)
    }
  }

  /** Returns false if the URL cannot be decoded. */
  function locate(exchange: Exchange): boolean {
    const { method, url } = exchange
    const known = method === 'GET' ? remembered.get(url) : undefined
    // HEAD runs the GET route; node:http leaves out the body.
    const found = known ?? router.find(method === 'HEAD' ? 'GET' : (method as Method), url)
    if (!found) {
      if (method === 'GET' || method === 'HEAD') exchange.route = stages.fallback
      return true
    }
    // `createPipeline` registers each route as its own store value.
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
    // All later requests with this URL share these objects.
    for (const shared of [params, query, ...fields]) Object.freeze(shared)
    setBounded(remembered, maxRemembered, url, { store: route, params, searchParams: query })
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
    const waiting = stages.readmit(exchange)
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

  /**
   * Confirms that the caller's rights still hold before the response is sent. A transaction that committed has
   * confirmed them under its locks.
   */
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

  /**
   * Runs the request again after a wait. Data and rights from before the wait may be stale, and none of them are
   * reused.
   */
  async function startOver(exchange: Exchange, route: Route, reason: StartOver): Promise<void> {
    exchange.reservation?.release()
    exchange.reservation = undefined
    exchange.isOwed = false
    exchange.forgetAnswer()
    const run = await nextRun(exchange.ctx, reason)
    try {
      await stages.readmit(exchange, run)
    } catch (error) {
      releaseSlots({ run })
      throw error
    }
    attempt(exchange, route)
  }

  function finish(exchange: Exchange, route: Route, value: unknown): void {
    try {
      if (route.endpoint) releaseSlots(exchange.ctx)
      // A committed change must be answered even under memory pressure: the last view of a share cannot be repeated.
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
    const { response, admitted } = exchange
    exchange.reservation?.release()
    exchange.reservation = undefined
    try {
      if (admitted) releaseSlots(admitted)
      stages.onError(error, exchange)
      if (!response.headersSent) answer(exchange)
      // A truncated response must not look complete.
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
    // Pages outside the API share one buffer between all readers, so no room is reserved for them.
    const waiting = route?.endpoint && reservations.reserveResponse(exchange, bytes)
    if (waiting) sendAfter(waiting, exchange).catch((error) => refuse(exchange, route, error))
    else compressAndSend(exchange)
  }

  async function sendAfter(waiting: Promise<void>, exchange: Exchange): Promise<void> {
    await waiting
    await confirmAgain(exchange)
    compressAndSend(exchange)
  }

  function compressAndSend(exchange: Exchange): void {
    const compressing = compressor.compress(exchange)
    if (!compressing) send(exchange)
    else
      compressing
        .then(() => confirmAgain(exchange))
        .then(
          () => send(exchange),
          (error) => (exchange.route ? refuse(exchange, exchange.route, error) : fail(error, exchange)),
        )
  }

  /** The caller may have lost its rights during a wait. A change that has committed is answered regardless. */
  async function confirmAgain({ route, isOwed, admitted }: Exchange): Promise<void> {
    if (route?.endpoint && admitted && !isOwed) await confirmRights(admitted)
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
    } else if (payload !== undefined && Number(answerHeaders['content-length']) > chunkBytes)
      sendInChunks(response, typeof payload === 'string' ? Buffer.from(payload) : payload)
    else response.end(payload, encodingOf(payload, answerHeaders['content-length']))
  }

  return handle
}

const nothing = () => undefined

/** Disconnects a reader that stalls: early if others need the room, otherwise after a timeout. */
function watchReader({ reservation, response, socket, payload, route, answerHeaders }: Exchange): void {
  const isSmall = Number(answerHeaders['content-length'] ?? 0) < countedBytes
  if (isSmall && !(payload instanceof Readable)) return
  response.setTimeout(route?.endpoint ? stalledMs : pageStalledMs)
  if (!reservation) return
  reservation.begin(() => socket.destroy())
  let writtenBytes = socket.bytesWritten
  response.on('drain', () => {
    reservation.moved(socket.bytesWritten - writtenBytes)
    writtenBytes = socket.bytesWritten
  })
}

const chunkBytes = 256 * 1024

/** The `drain` event after each piece shows that the client is reading. */
function sendInChunks(response: ServerResponse, bytes: Uint8Array): void {
  let at = 0
  const next = () => {
    while (bytes.length - at > chunkBytes) {
      const piece = bytes.subarray(at, at + chunkBytes)
      at += chunkBytes
      if (!response.write(piece)) {
        response.once('drain', next)
        return
      }
    }
    response.end(bytes.subarray(at))
  }
  next()
}

/** Text with one byte per character is sent twice as fast in latin1. */
const encodingOf = (payload: Payload | undefined, bytes: string | number | undefined) =>
  typeof payload === 'string' && payload.length === bytes ? 'latin1' : 'utf8'

const isHungUp = ({ code }: NodeJS.ErrnoException) => code === 'ERR_STREAM_PREMATURE_CLOSE'

/** Normalises a path: removes scheme and host (RFC 9112, 3.2.2), and decodes percent-encoded unreserved characters. */
function onePath(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '') || '/'
  return path.includes('%') ? path.replace(/%(?:2d|2e|3\d|[46][1-9a-f]|[57][0-9a]|5f|7e)/gi, decodeURIComponent) : path
}
