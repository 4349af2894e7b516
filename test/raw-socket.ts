/** HTTP as bytes on a socket, for requests that no client library sends. */
import { connect, type Socket } from 'node:net'

export type RawAnswer = {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

/** The service gives up an incomplete request before this. */
const deadlineMs = 120_000

/** Sends the bytes and reads all responses until the server closes; a connection that stays open is an error. */
export async function sendRaw(url: string, bytes: string | Buffer, hasBody = true): Promise<RawAnswer[]> {
  const socket = open(url)
  const received = receive(socket)
  socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  return parseAnswers(await received, hasBody)
}

export function open(url: string): Socket {
  const { hostname, port } = new URL(url)
  return connect({ host: hostname, port: Number(port) })
}

/** All bytes until the connection closes. */
export function receive(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const timer = setTimeout(() => {
      socket.destroy()
      reject(new Error(`the connection stayed open after: ${Buffer.concat(chunks).toString('latin1').slice(0, 500)}`))
    }, deadlineMs)
    socket.on('data', (chunk) => chunks.push(chunk))
    // A reset after the response is not an error.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(Buffer.concat(chunks))
    })
  })
}

export function parseAnswers(bytes: Buffer, hasBody = true): RawAnswer[] {
  const answers: RawAnswer[] = []
  let rest = bytes
  while (rest.length > 0) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) throw new Error(`incomplete response: ${rest.toString('latin1')}`)
    const [statusLine = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n')
    const headers = new Headers(lines.map((line): [string, string] => splitHeader(line)))
    rest = rest.subarray(end + 4)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1])
    const { body, length } = hasBody && status >= 200 ? readBody(rest, headers) : { body: '', length: 0 }
    rest = rest.subarray(length)
    if (status >= 200) answers.push({ status, headers, body })
  }
  return answers
}

function splitHeader(line: string): [string, string] {
  const colon = line.indexOf(':')
  return [line.slice(0, colon), line.slice(colon + 1).trim()]
}

function readBody(bytes: Buffer, headers: Headers): { body: string; length: number } {
  if (headers.get('transfer-encoding') !== 'chunked') {
    const length = Number(headers.get('content-length') ?? 0)
    return { body: bytes.subarray(0, length).toString(), length }
  }
  let body = ''
  let at = 0
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const size = Number.parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16)
    body += bytes.subarray(lineEnd + 2, lineEnd + 2 + size).toString()
    at = lineEnd + 4 + size
    if (!(size > 0)) return { body, length: at }
  }
}
