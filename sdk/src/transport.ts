/** Sends one HTTP request and reads the whole response. */
import { ResponseError } from './error.ts'

export type TransportRequest = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Ends the request, the reading of the response included. */
  readonly signal: AbortSignal
  /** A longer response is refused, so that it cannot fill the memory. */
  readonly maxBytes: number
}

export type TransportResponse = {
  readonly status: number
  /** Takes a name in lower case. */
  header(name: string): string | undefined
  readonly body: string
}

/** Rejects if no complete response arrives. Never follows a redirect: the credential is for one host only. */
export type Transport = (request: TransportRequest) => Promise<TransportResponse>

export const fetchTransport: Transport = async ({ url, method, headers, body, signal, maxBytes }) => {
  // Frameworks that replace `fetch` may otherwise keep the response on disk.
  const init = { method, headers, signal, redirect: 'manual', cache: 'no-store' } as const
  const response = await fetch(url, body === undefined ? init : { ...init, body })
  return {
    status: response.status,
    header: (name) => response.headers.get(name) ?? undefined,
    body: await readText(response, maxBytes),
  }
}

export const tooLarge = (status: number, maxBytes: number): ResponseError =>
  new ResponseError(`The answer is larger than ${maxBytes} bytes.`, status)

async function readText(response: Response, maxBytes: number): Promise<string> {
  const reader = response.body?.getReader()
  // Redirects in browsers have no body, and some platforms have no streams.
  if (!reader) return response.text()
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  while (true) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.length
    if (bytes > maxBytes) {
      reader.cancel().catch(() => undefined)
      throw tooLarge(response.status, maxBytes)
    }
    text += decoder.decode(value, { stream: true })
  }
}
