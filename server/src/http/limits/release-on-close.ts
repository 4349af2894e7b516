/** Releases reservation when its response ends or its connection breaks, whichever happens first. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Reservation } from './byte-budget.ts'

type ReleaseOnClose = (socket: Socket, response: ServerResponse, reservation: Reservation) => void

export function createReleaseOnClose(): ReleaseOnClose {
  const reservationsOn = new WeakMap<Socket, Set<Reservation>>()

  /** One `close` listener per socket, however many of its requests are pipelined. */
  function watch(socket: Socket): Set<Reservation> {
    const reservations = new Set<Reservation>()
    reservationsOn.set(socket, reservations)
    socket.once('close', () => {
      for (const reservation of reservations) reservation.release()
    })
    return reservations
  }

  return (socket, response, reservation) => {
    if (socket.destroyed) reservation.release()
    const reservations = reservationsOn.get(socket) ?? watch(socket)
    reservations.add(reservation)
    // A response queued behind others of its connection emits no `close` when the connection breaks; the socket's
    // listener covers that case.
    response.once('close', () => {
      reservations.delete(reservation)
      reservation.release()
    })
  }
}
