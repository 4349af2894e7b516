/**
 * A bound on what is kept for the other side of connections: bodies of which the rest is still to come, answers that are
 * not taken yet. Whoever begins many of them and finishes none must not fill the memory.
 */
import { Failure } from '../failure.ts'

const mebibyte = 1024 * 1024
/** What is smaller is not counted: the system keeps as much for each connection. */
export const countedBytes = 64 * 1024

export type ByteBudget = {
  /** Throws `overloaded` where there is no room for so much. */
  take(bytes: number): void
  giveBack(bytes: number): void
}

function createByteBudget(maxBytes: number): ByteBudget {
  let taken = 0
  return {
    take(bytes) {
      if (taken + bytes > maxBytes) throw new Failure('overloaded')
      taken += bytes
    },
    giveBack(bytes) {
      taken -= bytes
    },
  }
}

/** Eight of the largest. */
export const arriving = createByteBudget(64 * mebibyte)
/** Two of the largest. */
export const leaving = createByteBudget(128 * mebibyte)
