/** TLS of the service: its certificate, which is read again when its files change, and the servers that use it. */
import { stat } from 'node:fs/promises'
import type { Server, ServerOptions } from 'node:http'
import type { TlsFiles } from '../config.ts'
import { ConfigError } from '../config-error.ts'
import { type Log, traceOf } from '../log.ts'
import { type KeyPair, readKeyPair } from './certificate.ts'
import { defaultHandshakeTimeoutMs, type HandshakeLimit, limitHandshakes } from './handshake-limit.ts'

export type Tls = {
  /** When the certificate in use ends. */
  readonly expiresAt: number
  /** An HTTPS server that always uses the newest certificate. */
  createServer(options: ServerOptions): Server
  /** Disconnects clients in the middle of a handshake. */
  hangUp(): void
  stop(): void
}

/** Polled, not watched: a watch misses the change of a symbolic link, by which Kubernetes replaces files. */
const pollMs = 1_000
/** A pair that could not be used may become valid, and too many open files are a passing problem. */
const pollsBetweenTries = 10

export async function openTls(
  files: TlsFiles,
  log: Log,
  now: () => number,
  handshakeTimeoutMs = defaultHandshakeTimeoutMs,
): Promise<Tls> {
  let seen = await versionOf(files)
  let loaded = seen
  let failed: string | undefined
  let pollsToWait = 0
  let pair = await readKeyPair(files, now())
  const servers: { setSecureContext(options: object): void }[] = []
  const limits: HandshakeLimit[] = []

  async function poll(): Promise<void> {
    const version = await versionOf(files)
    // Two files are not replaced at once: waits until both have stayed the same for a while.
    const isSettled = version === seen
    seen = version
    if (!isSettled || version === loaded) return
    if (version === failed && --pollsToWait > 0) return
    try {
      await replace()
      loaded = version
    } catch (error) {
      // Once for each version of the files, however often it is tried.
      if (version !== failed) explain(error)
      failed = version
      pollsToWait = pollsBetweenTries
    }
  }

  async function replace(): Promise<void> {
    pair = await readKeyPair(files, now())
    for (const server of servers) server.setSecureContext(contextOf(pair))
    log.info(`the TLS certificate was replaced; it is valid until ${new Date(pair.expiresAt).toISOString()}`)
  }

  function explain(error: unknown): void {
    const isOurs = error instanceof ConfigError
    log.error(`the TLS certificate before stays in use: ${isOurs ? error.message : 'it cannot be replaced.'}`, {
      ...(isOurs ? {} : traceOf(error)),
    })
  }

  let isPolling = false
  const tick = () => {
    if (isPolling) return
    isPolling = true
    poll().finally(() => {
      isPolling = false
    })
  }
  let timer: NodeJS.Timeout | undefined

  return {
    get expiresAt() {
      return pair.expiresAt
    },
    createServer(options) {
      const server = process.getBuiltinModule('node:https').createServer({
        ...options,
        ...contextOf(pair),
        // As node:http sets it by itself.
        noDelay: true,
        handshakeTimeout: handshakeTimeoutMs,
      })
      // Node would report a failed handshake as a malformed request, which is answered in plain text.
      server.removeAllListeners('tlsClientError').on('tlsClientError', (_error, socket) => socket.destroy())
      // A client that half-closes its connection waits for its response, but one that does so in the middle of the
      // handshake is gone.
      server.prependListener('secureConnection', (socket) => {
        socket.allowHalfOpen = true
      })
      limits.push(limitHandshakes(server))
      servers.push(server)
      timer ??= setInterval(tick, pollMs).unref()
      return server
    },
    hangUp() {
      for (const limit of limits) limit.hangUp()
    },
    stop: () => clearInterval(timer),
  }
}

/**
 * Only forward secrecy with authenticated encryption. TLS 1.3 has nothing else; of TLS 1.2, the CBC modes and the
 * exchange of keys by RSA are left out.
 */
const ciphers = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['ECDSA', 'RSA'].flatMap((signature) =>
    ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map((rest) => `ECDHE-${signature}-${rest}`),
  ),
].join(':')

const contextOf = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: 'TLSv1.2' as const, ciphers })

/** Changes with the content, the target of a link, and the permissions. */
async function versionOf({ certificateFile, keyFile }: TlsFiles): Promise<string> {
  const parts = [certificateFile, keyFile].map(async (path) => {
    const status = await stat(path).catch(() => undefined)
    return status && [status.dev, status.ino, status.size, status.mtimeMs, status.ctimeMs].join()
  })
  return (await Promise.all(parts)).join(' ')
}
