/** The one place that turns an error into an answer: `{ "message": … }` and nothing else, on every route but one. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Failure, type FailureCode } from '../failure.ts'
import { type Log, traceOf } from '../log.ts'

export function answerError(log: Log, error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = toFailure(error, request.routeOptions?.config?.endpoint?.maxBodyBytes)
  if (failure.status === 500) {
    const route = request.routeOptions?.url ?? ''
    log.error('a request failed', { requestId: request.id, method: request.method, route, ...traceOf(error) })
  }
  if (failure.status === 401) reply.header('www-authenticate', 'Bearer')
  if (failure.retryAfterSeconds !== undefined) reply.header('retry-after', failure.retryAfterSeconds)
  // The framework keeps the rest of an unread body waiting; after these the connection has no future.
  if (failure.status === 413 || failure.code === 'stopping') reply.header('connection', 'close')
  reply
    .status(failure.status)
    .header('content-type', 'application/json; charset=utf-8')
    .serializer(String)
    .send(JSON.stringify(bodyOf(failure)))
}

/** Device polling is the one exception to the form of errors. */
const bodyOf = ({ code, message }: Failure) => (code === 'devicePoll' ? { error: message } : { message })

const frameworkCodes: Record<string, FailureCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'tooLarge',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupportedMediaType',
  FST_ERR_NOT_FOUND: 'notFound',
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: 'notFound',
}

export function toFailure(error: unknown, maxBodyBytes?: number): Failure {
  if (error instanceof Failure) return error
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  const known = frameworkCodes[code]
  if (known === 'tooLarge' && maxBodyBytes !== undefined) {
    return new Failure(known, `The request body is larger than ${maxBodyBytes / 1024} KiB.`)
  }
  if (known) return new Failure(known)
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500
  return status >= 400 && status < 500 ? new Failure('malformed') : new Failure('internal', undefined, { cause: error })
}
