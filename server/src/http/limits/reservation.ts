/**
 * Reserves memory budget for the body and the response of an exchange, until the response ends or the connection
 * breaks.
 */
import { findWorkspaceId } from '../../domain/access/access.ts'
import { grantOf } from '../../domain/actor.ts'
import type { Exchange } from '../exchange.ts'
import { type ByteBudgets, countedBytes, type Holder, type Reservation } from './byte-budget.ts'
import { createReleaseOnClose } from './release-on-close.ts'

export type Reservations = {
  /** Waits until the budget has room for this many bytes of the body. */
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
  const releaseOnClose = createReleaseOnClose()

  async function reserve(exchange: Exchange, bytes: number): Promise<void> {
    const holder = await findHolder(exchange)
    const reservation = exchange.isOwed ? leaving.takeAnyway(holder, bytes) : await leaving.wait(holder, bytes)
    releaseOnClose(exchange.socket, exchange.response, reservation)
    exchange.reservation = reservation
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
    async reserveBody(exchange, bytes) {
      const holder = await findHolder(exchange)
      const reservation = await arriving.wait(holder, bytes)
      releaseOnClose(exchange.socket, exchange.response, reservation)
      return reservation
    },
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
    requireRoom: (exchange) => leaving.requireRoom(holderOf(exchange)),
  }
}

function holderOf({ ctx, network }: Exchange): Holder {
  const { userId, id, credential } = ctx.actor
  return { client: userId || id || network, workspace: undefined, hasCredential: credential.type !== 'none' }
}

/** Only requests of members count against a workspace: anybody can write its name into a path. */
async function findHolder(exchange: Exchange): Promise<Holder> {
  const holder = holderOf(exchange)
  const grant = grantOf(exchange.ctx.actor.credential)
  if (grant) return { ...holder, workspace: grant.workspaceId }
  const { ws } = Object(exchange.params)
  if (!holder.hasCredential || typeof ws !== 'string') return holder
  // A store outage here must not turn a change that has already committed into an error.
  const workspace = await findWorkspaceId(exchange.ctx, ws).catch(() => undefined)
  return { ...holder, workspace }
}
