/**
 * The only module that talks to the mail server. Mails are sent in the background, each over its own connection, and
 * given up after a fixed time: no request waits for a mail or fails with it. The caller is told the outcome; the log
 * names the error, never the mail.
 */
import { isLoopback } from './config.ts'
import { type Log, traceOf } from './log.ts'
import { createSlotPool } from './slot/pool.ts'

export type MailMessage = {
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html: string
}

export type Mail = {
  /** Returns at once. `settled` is called exactly once, with the outcome. */
  post(letter: MailMessage, settled: (outcome: 'sent' | 'failed') => Promise<void>): void
  /** Connects and logs in, and sends nothing. Rejects with an error that has a code. */
  check(withinMs: number): Promise<void>
  /** Lets mails in progress finish for a moment, then cancels the rest. */
  close(): Promise<void>
}

type MailSettings = {
  readonly smtpUrl: string
  readonly from: string
  /** Name that the service gives to the mail server in EHLO. */
  readonly clientName: string
  readonly log: Log
  readonly giveUpAfterMs?: number
}

const defaultGiveUpAfterMs = 30_000
const closeWithinMs = 3_000
const maxAtOnce = 5
const maxWaiting = 1_000

type Done = (error?: Error | null) => void
type Connection = InstanceType<typeof import('nodemailer/lib/smtp-connection')['default']>

class MailError extends Error {
  override readonly name = 'MailError'
  /** The only part of the error that the log shows. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export function createMail(settings: MailSettings): Mail {
  const { from, log, giveUpAfterMs = defaultGiveUpAfterMs } = settings
  const server = serverOf(settings)
  const slots = createSlotPool({ running: maxAtOnce, waiting: maxWaiting, maxWaitMs: giveUpAfterMs })
  const pending = new Set<Promise<void>>()
  const cuts = new Set<(reason: MailError) => void>()
  let isClosed = false

  /** Sends a few mails at a time. A mail that has waited too long is dropped. */
  async function send(letter: MailMessage): Promise<void> {
    const giveUpAt = performance.now() + giveUpAfterMs
    const slot = await slots.acquire([])
    try {
      const leftMs = giveUpAt - performance.now()
      if (isClosed) throw new MailError('ECANCELED', 'the service is stopping')
      if (leftMs <= 0) throw new MailError('ETIMEDOUT', 'not sent in time')
      await transfer(letter, leftMs)
    } finally {
      slot.release()
    }
  }

  async function transfer(letter: MailMessage, withinMs: number): Promise<void> {
    if (!plainAddress.test(letter.to)) throw new MailError('EENVELOPE', 'not a plain address')
    // Loaded on demand, like the connection.
    const { default: MailComposer } = await import('nodemailer/lib/mail-composer')
    const { subject, text, html } = letter
    const to = { name: '', address: letter.to }
    const composer = new MailComposer({
      from,
      to,
      subject,
      text,
      html,
      disableFileAccess: true,
      disableUrlAccess: true,
    })
    const message = await composer.compile().build()
    await connect(withinMs, (connection, done) => connection.send({ from, to: [letter.to] }, message, done))
  }

  /** Calls `then` on a connection that is logged in, and closes it when `done` is called or the time is over. */
  async function connect(withinMs: number, then: (connection: Connection, done: Done) => void): Promise<void> {
    // Loaded on demand: many installations send no mail. It is documented at nodemailer.com/extras.
    const { default: SmtpConnection } = await import('nodemailer/lib/smtp-connection')
    const connection = new SmtpConnection({ ...server.options, socketTimeout: withinMs })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(new MailError('ETIMEDOUT', 'not sent in time')), withinMs)
    cuts.add(reject)
    connection.on('error', reject)
    connection.once('end', () => reject(new MailError('ECONNRESET', 'the connection ended')))
    const orReject = (next: () => void) => (error?: Error | null) => (error ? reject(error) : next())
    const go = () => then(connection, orReject(resolve))
    connection.connect(orReject(() => (server.auth ? connection.login(server.auth, orReject(go)) : go())))
    try {
      await promise
    } finally {
      clearTimeout(timer)
      cuts.delete(reject)
      connection.close()
    }
  }

  return {
    post(letter, settled) {
      const work = send(letter)
        .then(
          () => 'sent' as const,
          (error) => {
            log.warn('a mail could not be sent', traceOf(error))
            return 'failed' as const
          },
        )
        .then(settled)
        .catch((error) => log.warn('the outcome of a mail could not be recorded', traceOf(error)))
        .finally(() => pending.delete(work))
      pending.add(work)
    },
    check: (withinMs) => connect(withinMs, (_connection, done) => done()),
    async close() {
      isClosed = true
      const timer = setTimeout(() => {
        for (const cut of cuts) cut(new MailError('ECANCELED', 'the service is stopping'))
      }, closeWithinMs)
      await Promise.all(pending)
      clearTimeout(timer)
    },
  }
}

/** Exactly one mailbox: no character that a mail server could parse as a list or a route. */
const plainAddress = /^[^\s@<>()[\]\\,;:"]+@[^\s@<>()[\]\\,;:"]+$/

/** Connection options from the SMTP URL of the settings. */
export function serverOf({ smtpUrl, clientName }: Pick<MailSettings, 'smtpUrl' | 'clientName'>) {
  const url = new URL(smtpUrl)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const [user, pass] = [url.username, url.password].map(decodeURIComponent)
  const secure = url.protocol === 'smtps:'
  // Require TLS before sending a password, unless the server is on this machine.
  const requireTLS = !secure && user !== '' && !isLoopback(host)
  const port = url.port === '' ? (secure ? 465 : 587) : Number(url.port)
  return {
    options: { host, port, secure, requireTLS, name: clientName },
    auth: user === '' ? undefined : { user, pass },
  }
}
