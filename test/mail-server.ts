/** A real mail server on loopback that keeps what it is given. */
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

type Delivered = {
  readonly from: string
  readonly to: readonly string[]
  /** As it came over the wire. */
  readonly raw: string
  /** The same with its quoted-printable parts decoded. */
  readonly text: string
}

export type MailServer = {
  readonly port: number
  readonly delivered: readonly Delivered[]
  /** The first letter to this address, as soon as it is there. */
  letterTo(address: string): Promise<Delivered>
  /** How many letters were under way together at most. */
  mostAtOnce(): number
  stop(): Promise<void>
}

export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const delivered: Delivered[] = []
  const arrivals = new Set<() => void>()
  let underWay = 0
  let most = 0
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    // The name of whoever connects is nobody's business: it would be asked of a name server.
    disableReverseLookup: true,
    onConnect(_session, done) {
      most = Math.max(most, ++underWay)
      done()
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const raw = Buffer.concat(chunks).toString('utf8')
        const { mailFrom, rcptTo } = session.envelope
        const from = mailFrom === false ? '' : mailFrom.address
        delivered.push({ from, to: rcptTo.map(({ address }) => address), raw, text: decode(raw) })
        underWay--
        done()
        for (const arrival of arrivals) arrival()
      })
    },
    ...options,
  })
  // A client that leaves in the middle is part of what is tested.
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  // Listening on a port, not on a path.
  const { port } = server.server.address() as AddressInfo
  return {
    port,
    delivered,
    letterTo: (address) =>
      new Promise((resolve) => {
        const look = () => {
          const letter = delivered.find(({ to }) => to.includes(address))
          if (!letter) return
          arrivals.delete(look)
          resolve(letter)
        }
        arrivals.add(look)
        look()
      }),
    mostAtOnce: () => most,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

function decode(raw: string): string {
  const bytes = raw
    // The end of an encoded word in a header is no soft line break.
    .replace(/(?<!\?)=\r?\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_match, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}
