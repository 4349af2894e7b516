/** Malformed requests as bytes: broken request lines, headers and lengths. */

export const head = (line: string, ...headers: string[]) =>
  [line, 'Host: localhost', 'Connection: close', ...headers, '', ''].join('\r\n')

export const json = 'Content-Type: application/json'

/** A request with a body of exactly these bytes. */
export function post(path: string, body: string | Buffer, ...headers: string[]): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([
    Buffer.from(head(`POST ${path} HTTP/1.1`, ...headers, `Content-Length: ${bytes.length}`)),
    bytes,
  ])
}

export function chunked(path: string, chunks: string[], ...headers: string[]): string {
  const body = [...chunks, ''].map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('')
  return head(`POST ${path} HTTP/1.1`, 'Transfer-Encoding: chunked', ...headers) + body
}

/** Ambiguous body lengths: each is refused, and the connection is closed. */
export const brokenLengths = (path: string): [what: string, bytes: string][] => [
  ['a length that is too short', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: 2')}{}{}`],
  ['two lengths', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: 2', 'Content-Length: 2')}{}`],
  ['two different lengths', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: 2', 'Content-Length: 3')}{}`],
  ['a negative length', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: -2')}{}`],
  ['a length that is not a number', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: two')}{}`],
  ['a length with a sign', `${head(`POST ${path} HTTP/1.1`, json, 'Content-Length: +2')}{}`],
  ['a length of 40 digits', `${head(`POST ${path} HTTP/1.1`, json, `Content-Length: ${'9'.repeat(40)}`)}{}`],
  ['a length and chunked encoding', chunked(path, ['{}'], json, 'Content-Length: 2')],
  ['chunked that is not the last transfer coding', chunked(path, ['{}'], json, 'Transfer-Encoding: gzip')],
  ['a chunk with an invalid size', `${head(`POST ${path} HTTP/1.1`, json, 'Transfer-Encoding: chunked')}zz\r\n{}\r\n`],
]

/** Invalid HTTP: each is refused with 400. */
export const brokenLines: [what: string, bytes: string | Buffer][] = [
  ['an unknown method', head('BOGUS /v1/me HTTP/1.1')],
  ['a method in lower case', head('get /v1/me HTTP/1.1')],
  ['no path', head('GET HTTP/1.1')],
  ['a path without a slash', head('GET v1/me HTTP/1.1')],
  ['a NUL in the path', head('GET /v1/me\0 HTTP/1.1')],
  ['a space in the path', head('GET /v1/ me HTTP/1.1')],
  ['an unknown protocol', head('GET /v1/me HTTX/1.1')],
  ['an unknown HTTP version', head('GET /v1/me HTTP/9.9')],
  ['a header without a colon', head('GET /v1/me HTTP/1.1', 'Nonsense')],
  ['a header with a space before its colon', head('GET /v1/me HTTP/1.1', 'X-A : b')],
  ['a folded header', head('GET /v1/me HTTP/1.1', 'X-A: b\r\n c')],
  ['a NUL in a header', head('GET /v1/me HTTP/1.1', 'X-A: \0')],
  ['line ends without CR', head('GET /v1/me HTTP/1.1').replaceAll('\r', '')],
  ['TLS', Buffer.from('16030100c8010000c40303', 'hex')],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
]

/** Over the size limits: each is refused with 431. */
export const oversized: [what: string, bytes: string][] = [
  ['a header of 20 kB', head('GET /v1/me HTTP/1.1', `X-A: ${'a'.repeat(20_000)}`)],
  ['a path of 20 kB', head(`GET /v1/${'a'.repeat(20_000)} HTTP/1.1`)],
  ['2,000 headers', head('GET /v1/me HTTP/1.1', ...Array.from({ length: 2_000 }, (_, at) => `X-${at}: a`))],
]
