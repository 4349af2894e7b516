/**
 * A bound on what is kept for the other side of connections: bodies of which the rest is still to come, answers that are
 * not taken yet, requests that wait behind those. Whoever begins many of them and finishes none must not fill the memory,
 * nor take the room of the others.
 */
import { clientNetwork } from '../address-range.ts'
import type { Context } from '../domain/context.ts'
import { Failure } from '../failure.ts'
import type { Exchange } from './exchange.ts'

const mebibyte = 1024 * 1024
/** What is smaller is not counted: the system keeps as much for each connection. */
export const countedBytes = 64 * 1024

type ByteBudget = {
  /** Throws `overloaded` where there is no room for so much, or one client would have more than half of all. */
  take(client: string, bytes: number): void
  /** The same for what cannot be refused any more. */
  takeAnyway(client: string, bytes: number): void
  /** Throws `overloaded` where that client has half of all. */
  requireRoom(client: string): void
  giveBack(client: string, bytes: number): void
}

function createByteBudget(maxBytes: number): ByteBudget {
  let taken = 0
  const takenBy = new Map<string, number>()

  function add(client: string, bytes: number): void {
    taken += bytes
    takenBy.set(client, (takenBy.get(client) ?? 0) + bytes)
  }

  return {
    take(client, bytes) {
      const own = takenBy.get(client) ?? 0
      // One alone always passes, however large.
      const isGreedy = own > 0 && own + bytes > maxBytes / 2
      if (isGreedy || taken + bytes > maxBytes) throw new Failure('overloaded')
      add(client, bytes)
    },
    takeAnyway: add,
    requireRoom(client) {
      if ((takenBy.get(client) ?? 0) >= maxBytes / 2) throw new Failure('overloaded')
    },
    giveBack(client, bytes) {
      taken -= bytes
      const own = (takenBy.get(client) ?? 0) - bytes
      if (own > 0) takenBy.set(client, own)
      else takenBy.delete(client)
    },
  }
}

/** A person with all of their credentials, an identity, or where it comes from. */
export function clientOf({ ctx, socket }: Exchange): string {
  // Beside the contract nobody is asked who they are.
  const known: Context | undefined = ctx
  const { userId, id } = known?.actor ?? { userId: '', id: '' }
  return userId || id || clientNetwork(known?.request.ip ?? socket.remoteAddress ?? '')
}

/** Eight of the largest. */
export const arriving = createByteBudget(64 * mebibyte)
/** Two of the largest. */
export const leaving = createByteBudget(128 * mebibyte)
/** 8,192 requests that wait behind others of their connection: each is small, but the sender chooses how many there are. */
export const queued = createByteBudget(64 * mebibyte)
/** What such a request takes, with all that belongs to it, before any answer is made. */
export const queuedBytes = 8 * 1024

/** Whoever takes nothing of an answer for so long does not get the rest. */
export const stalledMs = 300_000
/** The same for pages outside the API, which anybody may ask for and ask for again. */
export const pageStalledMs = 10_000
