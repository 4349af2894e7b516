/** Plants secrets, sends requests that may leak them, and searches the database and every text for them. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import { databaseFile } from '../server/src/open-store.ts'
import { engine, type TestService } from './harness.ts'
import { openRaw } from './raw-database.ts'
import { spellings } from './spelling.ts'

type Exchange = { readonly request: string; readonly response: string; readonly mayHold: readonly string[] }
type Sent = { status: number; headers: Headers; text: string }
export type Options = { token?: string; body?: unknown; headers?: Record<string, string>; mayHold?: string[] }
export type Canaries = Awaited<ReturnType<typeof createCanaries>>

export async function createCanaries(service: TestService) {
  const raw = await openRaw(service)
  /** Every secret of the run by its name. */
  const secrets = new Map<string, Buffer>()
  const exchanges: Exchange[] = []

  function plant(name: string, secret: string | Uint8Array): string {
    const bytes = Buffer.from(secret)
    expect(bytes.length, name).toBeGreaterThanOrEqual(12)
    secrets.set(name, bytes)
    return bytes.toString()
  }

  let made = 0
  /** A password or other text that nothing else contains. */
  const canary = (name: string) =>
    plant(name, `canary-${++made}-${createHash('sha256').update(name).digest('hex').slice(0, 20)}`)

  /** The first 13 characters of a token are shown in lists on purpose; the rest is the secret. */
  const plantBearer = (name: string, value: string) => {
    plant(name, value.slice(13))
    return value
  }
  const plantJwt = (name: string, value: string) => {
    plant(`${name}, its signature`, value.split('.')[2] ?? '')
    return value
  }

  async function send(method: string, path: string, options: Options = {}): Promise<Sent> {
    const { token, body, headers = {}, mayHold = [] } = options
    const response = await fetch(service.url + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const shown = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n')
    exchanges.push({ request: `${method} ${path.split('?')[0]}`, response: `${shown}\n\n${text}`, mayHold })
    return { status: response.status, headers: response.headers, text }
  }

  async function sendFor<Body>(status: number, method: string, path: string, options: Options = {}): Promise<Body> {
    const answer = await send(method, path, options)
    expect(answer.status, `${method} ${path} ${answer.text}`).toBe(status)
    return JSON.parse(answer.text)
  }

  /** Sends raw bytes, for requests that no client library would send. */
  function sendBytes(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const { port } = new URL(service.url)
      const socket = connect(Number(port), '127.0.0.1', () => socket.end(text))
      const pieces: Buffer[] = []
      socket.on('data', (piece) => pieces.push(piece))
      socket.on('error', reject)
      socket.on('close', () => {
        exchanges.push({ request: 'raw', response: Buffer.concat(pieces).toString(), mayHold: [] })
        resolve()
      })
    })
  }

  function find(haystack: Buffer, names: Iterable<string> = secrets.keys()): string[] {
    const found: string[] = []
    for (const name of names) {
      const secret = secrets.get(name) ?? Buffer.from('unknown secret name')
      for (const spelling of spellings(secret)) {
        if (haystack.includes(spelling.bytes)) found.push(`${name} (${spelling.name})`)
      }
    }
    return found
  }

  async function dumpDatabase(): Promise<Buffer> {
    const rows: Buffer[] = []
    for (const table of await raw.tables()) {
      for (const row of await raw.query(`select * from ${table}`)) {
        for (const [column, cell] of Object.entries(row)) {
          // Bytes both raw and as hex, as a dump would show them.
          if (cell instanceof Uint8Array)
            rows.push(
              Buffer.from(`${table}.${column}=`),
              Buffer.from(cell),
              Buffer.from(`\\x${Buffer.from(cell).toString('hex')}\n`),
            )
          else rows.push(Buffer.from(`${table}.${column}=${String(cell)}\n`))
        }
      }
    }
    if (engine === 'sqlite') {
      for (const suffix of ['', '-wal', '-shm']) {
        const path = join(service.dataDir, databaseFile + suffix)
        if (existsSync(path)) rows.push(readFileSync(path))
      }
    }
    return Buffer.concat(rows)
  }

  return {
    service,
    raw,
    secrets,
    exchanges,
    plant,
    canary,
    plantBearer,
    plantJwt,
    send,
    sendFor,
    sendBytes,
    find,
    dumpDatabase,
  }
}
