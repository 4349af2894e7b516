/** Transport on node:http and node:https. A command that makes one request uses half of the processor time of `fetch`. */
import { SettingError } from './error.ts'
import { findBuiltin } from './platform.ts'
import { type Transport, type TransportResponse, tooLarge } from './transport.ts'

export const nodeTransport: Transport = ({ method, url, headers, body, signal, maxBytes }) => {
  const http = findBuiltin(url.startsWith('https:') ? 'node:https' : 'node:http')
  if (!http) throw new SettingError('The transport for Node needs Node 22.3 or later.')
  const size = body === undefined ? {} : { 'content-length': String(new TextEncoder().encode(body).length) }
  return new Promise<TransportResponse>((resolve, reject) => {
    let isAnswered = false
    const request = http.request(url, { method, headers: { ...headers, ...size }, signal }, (response) => {
      isAnswered = true
      const chunks: string[] = []
      response.setEncoding('utf8')
      let length = 0
      response.on('data', (chunk: string) => {
        chunks.push(chunk)
        length += chunk.length
        if (length <= maxBytes) return
        reject(tooLarge(response.statusCode ?? 0, maxBytes))
        request.destroy()
      })
      // Also after a connection that broke in the middle: then with the error ECONNRESET.
      response.on('error', reject)
      response.on('end', () => {
        const header = (name: string) => response.headers[name]?.toString()
        resolve({ status: response.statusCode ?? 0, header, body: chunks.join('') })
      })
    })
    request.on('error', reject)
    // Node closes the connection without an error if the status is 101. Later than the response, it means nothing.
    request.on('close', () => isAnswered || reject(new Error('closed')))
    request.end(body)
  })
}
