/**
 * Notices requests with X-Forwarded-For from an address that is not a trusted proxy. If it is a proxy, all its clients
 * share one rate limit, and nothing else would tell the operator.
 */
import type { Log } from '../../log.ts'

export type ForwardedWatch = {
  /** `peer` is the address that sent the request. */
  saw(peer: string): void
  readonly count: number
}

export function createForwardedWatch(log: Log): ForwardedWatch {
  let count = 0
  return {
    saw(peer) {
      // Once: anybody can send the header.
      if (count++ > 0) return
      log.warn(
        'X-Forwarded-For was sent by an address that COFFER_TRUSTED_PROXIES does not list: if it is a proxy, all clients behind it share one rate limit',
        { host: peer },
      )
    },
    get count() {
      return count
    },
  }
}
