/** How much of answers waits to be taken: whoever asks for much and reads none of it must not fill the memory. */
import type { ServerResponse } from 'node:http'
import { Failure } from '../failure.ts'

/** What is smaller the system takes for itself. */
const smallBytes = 64 * 1024
/** Two of the largest there are. */
const maxUntakenBytes = 128 * 1024 * 1024

export type Untaken = {
  /** Throws `overloaded` where too much waits already; it is over with the answer, taken or not. */
  hold(response: ServerResponse, bytes: number): void
}

export function createUntaken(): Untaken {
  let untaken = 0
  return {
    hold(response, bytes) {
      if (bytes < smallBytes) return
      if (untaken + bytes > maxUntakenBytes) throw new Failure('overloaded')
      untaken += bytes
      response.once('close', () => {
        untaken -= bytes
      })
    },
  }
}
