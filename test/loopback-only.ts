/** Restricts sockets to loopback, so that no test reaches another machine even through a bug. */
import type { LookupAddress } from 'node:dns'
import { isIP, type LookupFunction, Socket } from 'node:net'

type Target = { host?: string; path?: string; lookup?: LookupFunction }

const connect = Socket.prototype.connect
const isLoopback = (address: string) => /^(127\.|::1$|::ffff:(127\.|7f[0-9a-f]{2}:))/i.test(address)
const refusal = (host: string) => new Error(`a test tried to reach ${host}`)

function guarded(this: Socket, ...args: unknown[]): Socket {
  const [first, second]: unknown[] = args.flat()
  const target: Target = typeof first === 'object' && first !== null ? first : { host: String(second ?? 'localhost') }
  const { host = 'localhost', path, lookup } = target
  const isRemote = isIP(host) > 0 ? !isLoopback(host) : host !== 'localhost' && !lookup
  if (!path && isRemote) {
    this.destroy(refusal(host))
    return this
  }
  if (lookup) target.lookup = guardLookup(lookup)
  return Reflect.apply(connect, this, args)
}

// A process runs many test files, and this before each: once is enough.
if (connect.name !== guarded.name) Socket.prototype.connect = guarded

/** Host names resolved by the caller must lead to loopback too. */
function guardLookup(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, found, family) => {
      const addresses = (Array.isArray(found) ? found : [{ address: String(found), family: 0 }]) as LookupAddress[]
      const remote = addresses.find(({ address }) => !isLoopback(address))
      if (!error && remote) callback(refusal(remote.address), '', 0)
      else callback(error, found, family)
    })
}
