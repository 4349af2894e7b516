/** Turns an endpoint of the contract into a route: its schemas, its permission and one domain call. */
import { Readable } from 'node:stream'
import type { Endpoint } from '@coffer/contract/endpoint'
import { Nothing } from '@coffer/contract/field'
import type { Static, TSchema } from '@coffer/contract/schema'
import type { Context } from '../domain/context.ts'
import type { Page } from '../domain/page.ts'
import type { Chunks } from '../domain/secret/read/chunks.ts'
import type { Exchange, Reply, Route } from './exchange.ts'
import { maxBodyBytes } from './request/body.ts'
import { validatorOf } from './request/validate.ts'
import { serializerOf } from './response/serialize.ts'

type Part<E extends Endpoint, Key extends 'params' | 'query' | 'body'> = E[Key] extends TSchema
  ? Static<E[Key]>
  : unknown
type Asked<E extends Endpoint> = {
  readonly ctx: Context
  readonly params: Part<E, 'params'>
  readonly query: Part<E, 'query'>
  readonly body: Part<E, 'body'>
}
type Handler<E extends Endpoint> = (asked: Asked<E>, reply: Reply) => Promise<Static<E['response']> | Reply>
type Serve = <const E extends Endpoint>(endpoint: E, handler: Handler<E>) => void
export type Routes = (serve: Serve) => void

/** Collects the routes of the contract. */
export function serveInto(routes: Route[]): Serve {
  return (endpoint, handler) => {
    const { method, path, status } = endpoint
    if (!endpoint.permission) throw new Error(`${path} declares no permission`)
    const { params, query, body } = partsOf(endpoint)
    const validateParams = params && validatorOf(params, 'params')
    const validateBody = body && validatorOf(body, 'body', endpoint.answersIn)
    const validateQuery = query && validatorOf(query, 'querystring')
    routes.push({
      method,
      path,
      endpoint,
      maxBodyBytes: endpoint.maxBodyBytes ?? maxBodyBytes,
      validate(exchange) {
        validateParams?.(exchange.params)
        // A missing or empty body is treated as `{}`: the validator then names the missing field.
        if (validateBody && exchange.body === undefined) exchange.body = {}
        validateBody?.(exchange.body)
        validateQuery?.(exchange.query)
      },
      run(exchange) {
        exchange.statusCode = status
        // The exchange was just validated by the same schemas that these types are inferred from.
        return handler(exchange as Exchange & Asked<typeof endpoint>, exchange)
      },
      serialize: serializerOf(endpoint.response),
    })
  }
}

/** The request schemas of an endpoint. Every method but GET has a body, even if it must be empty. */
export function partsOf({ method, params, query, body }: Endpoint) {
  return { params, query, body: method === 'GET' ? undefined : (body ?? Nothing) }
}

/** A route outside the contract, such as a health check. */
export function plainRoute(path: string, run: (exchange: Exchange) => Promise<unknown>, isProbe = false): Route {
  const anything = () => undefined
  return { method: 'GET', path, isProbe, maxBodyBytes, validate: anything, run, serialize: JSON.stringify }
}

/** Response of an endpoint that returns no data. */
export async function succeed(work: Promise<void>): Promise<{ success: boolean }> {
  await work
  return { success: true }
}

/**
 * Sends text that needs no serialising. Large text is sent in pieces, each dropped from memory once it is handed out.
 */
export function sendText(reply: Reply, contentType: string, text: string | Buffer | Chunks): Reply {
  reply.header('content-type', contentType)
  if (!Array.isArray(text)) return reply.send(text)
  reply.header(
    'content-length',
    text.reduce((sum, { length }) => sum + length, 0),
  )
  return reply.send(Readable.from(handOut(text)))
}

function* handOut(pieces: Chunks): Generator<Buffer> {
  for (let piece = pieces.shift(); piece; piece = pieces.shift()) yield piece
}

/** Sends one page of a list; a header holds the cursor of the next page. */
export function sendPage<Item>(reply: Reply, { items, nextCursor }: Page<Item>): Item[] {
  if (nextCursor !== undefined) reply.header('x-next-cursor', nextCursor)
  return items
}
