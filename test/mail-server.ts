/** A real SMTP server on loopback that keeps every mail. */
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

type Delivered = {
  readonly from: string
  readonly to: readonly string[]
  /** As received. */
  readonly raw: string
  /** With quoted-printable parts decoded. */
  readonly text: string
}

export type MailServer = {
  readonly port: number
  readonly delivered: readonly Delivered[]
  /** Resolves with the first mail to this address. */
  mailTo(address: string): Promise<Delivered>
  /** Maximum number of concurrent deliveries. */
  maxConcurrent(): number
  stop(): Promise<void>
}

export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const delivered: Delivered[] = []
  const arrivals = new Set<() => void>()
  let concurrent = 0
  let most = 0
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    // A reverse lookup would query a name server.
    disableReverseLookup: true,
    onConnect(_session, done) {
      most = Math.max(most, ++concurrent)
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
        concurrent--
        done()
        for (const arrival of arrivals) arrival()
      })
    },
    ...options,
  })
  // Tests disconnect in the middle of a mail.
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  // The server listens on a port, not on a path.
  const { port } = server.server.address() as AddressInfo
  return {
    port,
    delivered,
    mailTo: (address) =>
      new Promise((resolve) => {
        const check = () => {
          const message = delivered.find(({ to }) => to.includes(address))
          if (!message) return
          arrivals.delete(check)
          resolve(message)
        }
        arrivals.add(check)
        check()
      }),
    maxConcurrent: () => most,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

function decode(raw: string): string {
  const bytes = raw
    // The end of an encoded word in a header is not a soft line break.
    .replace(/(?<!\?)=\r?\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_match, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}
