/** Reserves memory budget for the body and the response of an exchange. */
import { Failure } from '../../failure.ts'
import type { Parties } from '../../slot/fair-queue.ts'
import type { Exchange } from '../exchange.ts'
import { type ByteBudgets, countedBytes, type Reservation } from './byte-budget.ts'

export type Reservations = {
  /** Waits until the budget has room for this many bytes of the body. The caller releases them. */
  reserveBody(exchange: Exchange, bytes: number): Promise<Reservation>
  /** Waits until the budget has room for a response of this size. Undefined if no wait is needed. */
  reserveResponse(exchange: Exchange, bytes: number): Promise<void> | undefined
  /**
   * Like `reserveResponse`, called before a read is recorded: a recorded read must be answered, so its response is
   * never refused later.
   */
  reserveRead(exchange: Exchange, bytes: number): Promise<void> | undefined
  /** Call before a change: throws `overloaded` if its response would find no reservation. */
  requireRoom(exchange: Exchange): void
}

export function createReservations({ arriving, leaving }: ByteBudgets): Reservations {
  async function reserve(exchange: Exchange, bytes: number): Promise<void> {
    const parties = partiesOf(exchange)
    const reservation = exchange.isOwed ? leaving.reserveAnyway(parties, bytes) : await leaving.reserve(parties, bytes)
    exchange.reservation = reservation
    releaseOnClose(exchange, reservation)
  }

  function reserveResponse(exchange: Exchange, bytes: number): Promise<void> | undefined {
    const { reservation, response, socket, method } = exchange
    if (reservation) {
      reservation.resize(bytes)
      return undefined
    }
    const isGone = response.destroyed || socket.destroyed
    return bytes < countedBytes || isGone || method === 'HEAD' ? undefined : reserve(exchange, bytes)
  }

  return {
    reserveBody: (exchange, bytes) => arriving.reserve(partiesOf(exchange), bytes),
    reserveResponse,
    reserveRead(exchange, bytes) {
      const owe = () => {
        exchange.isOwed = true
      }
      const waiting = reserveResponse(exchange, bytes)
      if (waiting) return waiting.then(owe)
      owe()
      return undefined
    },
    requireRoom(exchange) {
      if (!leaving.hasRoom(partiesOf(exchange))) throw new Failure('overloaded')
    },
  }
}

/** A person with all of their credentials, or an identity. Those without a credential share one place among these. */
function partiesOf({ ctx, network }: Exchange): Parties {
  const { userId, id, credential } = ctx.actor
  return credential.type === 'none' ? ['public', network] : [userId || id]
}

/** Listens to both, because a response queued behind another emits no `close` when its connection breaks. */
function releaseOnClose({ socket, response }: Exchange, reservation: Reservation): void {
  const release = () => {
    socket.off('close', release)
    response.off('close', release)
    reservation.release()
  }
  if (socket.destroyed) release()
  socket.once('close', release)
  response.once('close', release)
}
