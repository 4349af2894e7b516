/** Reserves room for the body and the response of an exchange; the room is released with its connection. */
import { findWorkspaceId } from '../../domain/access/access.ts'
import { grantOf } from '../../domain/context.ts'
import type { Exchange } from '../exchange.ts'
import { type ByteBudgets, countedBytes, type Holder, type Room } from './byte-budget.ts'
import { createRoomKeeper } from './room-keeper.ts'

export type Reservations = {
  /** Waits until so much of the body may be received. */
  reserveBody(exchange: Exchange, bytes: number): Promise<Room>
  /** Waits until a response of this size may leave; undefined where there is nothing to wait for. */
  reserveResponse(exchange: Exchange, bytes: number): Promise<void> | undefined
  /** The same before a read is recorded: from then on its response is not refused any more. */
  reserveRead(exchange: Exchange, bytes: number): Promise<void> | undefined
  /** Throws `overloaded` before a change whose response would find no room. */
  requireRoom(exchange: Exchange): void
}

export function createReservations({ arriving, leaving }: ByteBudgets): Reservations {
  const keepRoom = createRoomKeeper()

  async function reserve(exchange: Exchange, bytes: number): Promise<void> {
    const holder = await findHolder(exchange)
    const room = exchange.isOwed ? leaving.takeAnyway(holder, bytes) : await leaving.wait(holder, bytes)
    keepRoom(exchange.socket, exchange.response, room)
    exchange.room = room
  }

  function reserveResponse(exchange: Exchange, bytes: number): Promise<void> | undefined {
    const { room, response, socket, method } = exchange
    if (room) {
      room.resize(bytes)
      return undefined
    }
    const isGone = response.destroyed || socket.destroyed
    return bytes < countedBytes || isGone || method === 'HEAD' ? undefined : reserve(exchange, bytes)
  }

  return {
    async reserveBody(exchange, bytes) {
      const holder = await findHolder(exchange)
      const room = await arriving.wait(holder, bytes)
      keepRoom(exchange.socket, exchange.response, room)
      return room
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

/** Only members count against a workspace: anybody can write its name into a path. */
async function findHolder(exchange: Exchange): Promise<Holder> {
  const holder = holderOf(exchange)
  const grant = grantOf(exchange.ctx.actor.credential)
  if (grant) return { ...holder, workspace: grant.workspaceId }
  const { ws } = Object(exchange.params)
  if (!holder.hasCredential || typeof ws !== 'string') return holder
  // A store that is away must not make a change that is done look like one that failed.
  const workspace = await findWorkspaceId(exchange.ctx, ws).catch(() => undefined)
  return { ...holder, workspace }
}
