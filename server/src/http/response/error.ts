/** The only place that turns an error into a response: `{ "message": … }` and nothing else, on every route but one. */
import { Failure } from '../../failure.ts'
import { type Log, traceOf } from '../../log.ts'
import type { Exchange } from '../exchange.ts'

export function answerError(log: Log, error: unknown, exchange: Exchange): void {
  const failure = error instanceof Failure ? error : new Failure('internal', undefined, { cause: error })
  if (failure.status === 500) {
    const { id, method, route } = exchange
    log.error('a request failed', { requestId: id, method, route: route?.path ?? '', ...traceOf(error) })
  }
  exchange.forgetAnswer()
  if (failure.status === 401) exchange.header('www-authenticate', 'Bearer')
  if (failure.retryAfterSeconds !== undefined) exchange.header('retry-after', failure.retryAfterSeconds)
  // Nothing was done yet, so that a client may repeat a write too.
  if (failure.code === 'stopping' || failure.code === 'sealed') exchange.header('x-coffer-unprocessed', 'true')
  // The connection cannot be reused: its body was not read, or the service is stopping.
  if (exchange.isBodyLeft || failure.code === 'stopping') exchange.header('connection', 'close')
  exchange
    .status(failure.status)
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify(bodyOf(failure)))
}

/** Device polling is the only exception to the error format. */
const bodyOf = ({ code, message }: Failure) => (code === 'devicePoll' ? { error: message } : { message })
