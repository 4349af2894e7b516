/**
 * The parts of the platform that the SDK uses. Node, Bun and Deno have environment variables and files; browsers and
 * edge runtimes have neither and get explicit options.
 */
import { SettingError } from './error.ts'
import { fetchTransport, type Transport } from './transport.ts'

export type Environment = Record<string, string | undefined>

/** Replaceable by the application, and by tests. */
export type Platform = {
  readonly env: Environment
  readonly transport: Transport
  /** The text of a file, or undefined if there is no such file. */
  readFile(path: string): Promise<string | undefined>
  /** Milliseconds since 1970. */
  now(): number
  sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void>
  /** From 0 to 1, for the jitter of retries. */
  random(): number
}

/** Declared here because an application may not have Node's own types. */
type Builtins = { 'node:fs': Files; 'node:http': Http; 'node:https': Http }
type Files = { readonly promises: { readFile(path: string, encoding: 'utf8'): Promise<string> } }
type Emitter = { on(event: string, listener: (given: never) => void): unknown }
type IncomingMessage = Emitter & {
  readonly statusCode?: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  setEncoding(encoding: 'utf8'): unknown
}
type HttpOptions = {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}
type Http = {
  request(
    url: string,
    options: HttpOptions,
    listener: (response: IncomingMessage) => void,
  ): Emitter & { end(body?: string): unknown; destroy(): unknown }
}
type Host = {
  readonly process?: { readonly env?: Environment; getBuiltinModule?(name: string): unknown }
}
const host = globalThis as Host

/** A built-in module of Node. An import would fail in browsers, and an import of node:http costs Node 44 ms. */
export function findBuiltin<Name extends keyof Builtins>(name: Name): Builtins[Name] | undefined {
  return host.process?.getBuiltinModule?.(name) as Builtins[Name] | undefined
}

export function createPlatform(replaced: Partial<Platform> = {}): Platform {
  return {
    env: host.process?.env ?? {},
    transport: fetchTransport,
    readFile,
    now: Date.now,
    sleep,
    random: Math.random,
    ...replaced,
  }
}

async function readFile(path: string): Promise<string | undefined> {
  const files = findBuiltin('node:fs')
  if (!files) throw new SettingError(`${path} cannot be read: this platform has no files.`)
  try {
    return await files.promises.readFile(path, 'utf8')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return undefined
    throw new SettingError(`${path} cannot be read (${code}).`)
  }
}

/** The code of a system error; nothing else of a foreign error is safe to show. */
export function codeOf(error: unknown): string {
  const { code, cause } = Object(error)
  if (typeof code === 'string' && /^[A-Z0-9_]{2,60}$/.test(code)) return code
  return cause === undefined || cause === error ? 'UNKNOWN' : codeOf(cause)
}

function sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, durationMs)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
