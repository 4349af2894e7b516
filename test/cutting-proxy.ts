/** A proxy between a node and PostgreSQL that cuts a connection after the n-th message in either direction. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export type Cut = {
  /** Counts the messages of all connections, from the moment at which the cut is set. */
  readonly direction: 'to server' | 'to node'
  readonly after: number
  /** All connections are cut then, and new ones are refused until the proxy heals: the server is away. */
  readonly isForAll: boolean
}

export type CuttingProxy = {
  readonly url: string
  /** Messages in each direction since the last `set`. */
  readonly passed: Readonly<Record<Cut['direction'], number>>
  readonly hasCut: boolean
  set(cut?: Cut): void
  /** Lets everything pass, once both sides know of each cut connection and the server is done with what it got. */
  heal(): Promise<void>
  close(): Promise<void>
}

export async function openCuttingProxy(target: string): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target)
  const open = new Set<() => void>()
  const ending = new Set<Promise<unknown>>()
  let cut: Cut | undefined
  let passed = { 'to server': 0, 'to node': 0 }
  let hasCut = false
  let isAway = false

  function cutNow(connection: () => void): void {
    hasCut = true
    isAway = cut?.isForAll === true
    const all = isAway ? [...open] : [connection]
    cut = undefined
    for (const end of all) end()
  }

  const server = createServer((node) => {
    const upstream = connect(Number(port), hostname)
    let isCut = false
    const end = () => {
      if (isCut) return
      isCut = true
      open.delete(end)
      ending.add(Promise.all([node, upstream].map((socket) => socket.destroyed || once(socket, 'close'))))
      // Both get the messages that were passed before.
      node.end()
      upstream.end()
    }
    open.add(end)
    const pass = (from: Socket, to: Socket, direction: Cut['direction'], split: (data: Buffer) => Buffer[]) => {
      // Messages are small, and each waits for an answer.
      from.setNoDelay(true)
      from
        .on('error', () => undefined)
        .on('close', () => {
          open.delete(end)
          // The server closes a cut connection itself once it is done.
          if (!isCut) to.destroySoon()
        })
      from.on('data', (data) => {
        for (const message of split(data)) {
          if (isCut) return
          if (cut?.direction === direction && cut.after === passed[direction]) return cutNow(end)
          passed[direction]++
          to.write(message)
        }
      })
    }
    pass(node, upstream, 'to server', splitMessages(true))
    pass(upstream, node, 'to node', splitMessages(false))
    if (isAway) end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const own = typeof address === 'object' && address ? address.port : 0
  return {
    url: Object.assign(new URL(target), { port: String(own) }).href,
    get passed() {
      return passed
    },
    get hasCut() {
      return hasCut
    },
    set: (next) => {
      cut = next
      hasCut = false
      passed = { 'to server': 0, 'to node': 0 }
    },
    heal: async () => {
      cut = undefined
      isAway = false
      await Promise.all(ending)
      ending.clear()
    },
    close: async () => {
      for (const end of open) end()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Splits a stream of the protocol: a type, which the first message of a client lacks, and a length that counts itself. */
function splitMessages(isFirstUntyped: boolean): (data: Buffer) => Buffer[] {
  let rest: Buffer = Buffer.alloc(0)
  let typeLength = isFirstUntyped ? 0 : 1
  return (data) => {
    rest = rest.length === 0 ? data : Buffer.concat([rest, data])
    const messages: Buffer[] = []
    while (rest.length >= typeLength + 4) {
      const length = typeLength + rest.readUInt32BE(typeLength)
      if (rest.length < length) break
      messages.push(rest.subarray(0, length))
      rest = rest.subarray(length)
      typeLength = 1
    }
    return messages
  }
}
