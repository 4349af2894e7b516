/** One request and the answer to it. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Context } from '../domain/context.ts'
import type { Room } from './limits/byte-budget.ts'
import type { Route } from './pipeline.ts'

export type Payload = string | Uint8Array | Readable

/** What a route may say about its answer. */
export type Reply = Pick<Exchange, 'headers' | 'header' | 'status' | 'send'>

/** Set before any route is reached; all other headers belong to an answer. */
const standingHeaders = /^(x-request-id|x-content-type-options|cache-control|ratelimit-(limit|remaining|reset))$/

export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly id: string
  readonly startedAt = performance.now()
  /** Without scheme and host, and spelled in one way. */
  readonly url: string
  route: Route | undefined = undefined
  params: unknown = undefined
  query: unknown = undefined
  body: unknown = undefined
  /** True where the rest of it is not read any more. */
  isBodyLeft = false
  isValidated = false
  /** The client's network, by which requests without a credential are counted. */
  network = ''
  /** Room for the response, while it is reserved. */
  room: Room | undefined = undefined
  /** True once a read is recorded or a change made: the response is not refused for want of room any more. */
  isOwed = false
  /** Set before any route is reached. */
  ctx: Context = undefined as unknown as Context
  statusCode = 200
  payload: Payload | undefined = undefined
  readonly answerHeaders: Record<string, string | number> = {}

  constructor(request: IncomingMessage, response: ServerResponse, id: string, url: string) {
    this.request = request
    this.response = response
    this.id = id
    this.url = url
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

  /** As it is: what is returned instead is put into JSON by the schema of the answer. */
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
