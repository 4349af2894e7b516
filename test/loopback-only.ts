/** No test talks to another machine, not even by a mistake in what it tests: sockets open to loopback only. */
import type { LookupAddress } from 'node:dns'
import { isIP, type LookupFunction, Socket } from 'node:net'

type Target = { host?: string; path?: string; lookup?: LookupFunction }

const connect = Socket.prototype.connect
const isLoopback = (address: string) => /^(127\.|::1$|::ffff:(127\.|7f[0-9a-f]{2}:))/i.test(address)
const refusal = (host: string) => new Error(`a test tried to reach ${host}`)

Socket.prototype.connect = function guarded(this: Socket, ...args: unknown[]): Socket {
  const [first, second]: unknown[] = args.flat()
  const target: Target = typeof first === 'object' && first !== null ? first : { host: String(second ?? 'localhost') }
  const { host = 'localhost', path, lookup } = target
  const isForeign = isIP(host) > 0 ? !isLoopback(host) : host !== 'localhost' && !lookup
  if (!path && isForeign) {
    this.destroy(refusal(host))
    return this
  }
  if (lookup) target.lookup = guardLookup(lookup)
  return Reflect.apply(connect, this, args)
}

/** A name that the caller resolves by itself must lead to loopback too. */
function guardLookup(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, found, family) => {
      const addresses = (Array.isArray(found) ? found : [{ address: String(found), family: 0 }]) as LookupAddress[]
      const foreign = addresses.find(({ address }) => !isLoopback(address))
      if (!error && foreign) callback(refusal(foreign.address), '', 0)
      else callback(error, found, family)
    })
}
