/** Sends one HTTP request and reads the whole response. */

export type TransportRequest = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Ends the request, the reading of the response included. */
  readonly signal: AbortSignal
}

export type TransportResponse = {
  readonly status: number
  /** Takes a name in lower case. */
  header(name: string): string | undefined
  readonly body: string
}

/** Rejects if no complete response arrives. Never follows a redirect: the credential is for one host only. */
export type Transport = (request: TransportRequest) => Promise<TransportResponse>

export const fetchTransport: Transport = async ({ url, method, headers, body, signal }) => {
  const init = { method, headers, signal, redirect: 'manual' } as const
  const response = await fetch(url, body === undefined ? init : { ...init, body })
  return {
    status: response.status,
    header: (name) => response.headers.get(name) ?? undefined,
    body: await response.text(),
  }
}
