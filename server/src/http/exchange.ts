/** One request and its response, and the route that answers it. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Endpoint } from '@coffer/contract/endpoint'
import type { Context } from '../domain/context.ts'
import type { Reservation } from './limits/byte-budget.ts'

export type Payload = string | Uint8Array | Readable

/** The part of an exchange that a route may use to shape its response. */
export type Reply = Pick<Exchange, 'headers' | 'header' | 'status' | 'send'>

export type Method = Endpoint['method']
export type Route = {
  readonly method: Method
  readonly path: string
  /** The endpoint of the contract. Undefined for other routes, such as /healthz. */
  readonly endpoint?: Endpoint
  /** A route outside the contract whose response may be compressed. For endpoints, see `withoutValues`. */
  readonly isCompressible?: boolean
  /** True for health checks, which are not rate-limited. */
  readonly isProbe?: boolean
  readonly maxBodyBytes: number
  validate(exchange: Exchange): void
  /** Returns the value to serialise, or the exchange itself if it already holds the payload. */
  run(exchange: Exchange): Promise<unknown>
  serialize(value: unknown): string
}

/** Set before any route is reached; all other headers belong to an answer. */
const standingHeaders =
  /^(x-request-id|x-content-type-options|strict-transport-security|cache-control|ratelimit-(limit|remaining|reset))$/

export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly id: string
  readonly startedAt = performance.now()
  /** Normalised: without scheme and host, and with one spelling for each path. */
  readonly url: string
  route: Route | undefined = undefined
  params: unknown = undefined
  query: unknown = undefined
  body: unknown = undefined
  /** True if the request is answered before its body was read to the end. */
  isBodyLeft = false
  isValidated = false
  /** The client's network, the key of rate limits by address. */
  network = ''
  /** Memory reserved for the response. */
  reservation: Reservation | undefined = undefined
  /** True once a read is recorded or a change committed: the response may no longer be refused for lack of memory. */
  isOwed = false
  /** Set by `admit` for every request of the API that it does not refuse. */
  admitted: Context | undefined = undefined
  statusCode = 200
  payload: Payload | undefined = undefined
  readonly answerHeaders: Record<string, string | number> = {}

  constructor(request: IncomingMessage, response: ServerResponse, id: string, url: string) {
    this.request = request
    this.response = response
    this.id = id
    this.url = url
  }

  /** For all that runs after `admit`, as the routes of the API do. */
  get ctx(): Context {
    if (!this.admitted) throw new Error('the exchange has no context: its request was not admitted')
    return this.admitted
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers
  }

  get socket(): Socket {
    return this.request.socket
  }

  get method(): string {
    return this.request.method ?? ''
  }

  header(name: string, value: string | number): this {
    this.answerHeaders[name] = value
    return this
  }

  status(code: number): this {
    this.statusCode = code
    return this
  }

  /** Sends the payload as it is. A value that a route returns instead is serialised by the response schema. */
  send(payload?: Payload): this {
    this.payload = payload
    return this
  }

  /** For an answer that was ready but is not given: nothing of it may stand in the one that is. */
  forgetAnswer(): void {
    this.payload = undefined
    for (const name of Object.keys(this.answerHeaders)) if (!standingHeaders.test(name)) delete this.answerHeaders[name]
  }
}
