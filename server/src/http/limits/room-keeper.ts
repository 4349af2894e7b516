/** Releases room when its response ends or its connection breaks, whichever happens first. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Room } from './byte-budget.ts'

type RoomKeeper = (socket: Socket, response: ServerResponse, room: Room) => void

export function createRoomKeeper(): RoomKeeper {
  const roomsOn = new WeakMap<Socket, Set<Room>>()

  /** One `close` listener per socket, however many of its requests are pipelined. */
  function watch(socket: Socket): Set<Room> {
    const rooms = new Set<Room>()
    roomsOn.set(socket, rooms)
    socket.once('close', () => {
      for (const room of rooms) room.release()
    })
    return rooms
  }

  return (socket, response, room) => {
    if (socket.destroyed) room.release()
    const rooms = roomsOn.get(socket) ?? watch(socket)
    rooms.add(room)
    // A response queued behind others of its connection emits no `close` when the connection breaks; the socket's
    // listener covers that case.
    response.once('close', () => {
      rooms.delete(room)
      room.release()
    })
  }
}
