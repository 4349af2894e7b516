/** A plain HTTP client; a request without a response fails. */

export type Answer = {
  readonly status: number
  readonly text: string
  readonly headers: Headers
  readonly requestId: string
}
export type Asked = {
  readonly token?: string | undefined
  readonly body?: unknown
  readonly headers?: Record<string, string>
  readonly timeoutMs?: number
}

export const hangMs = 120_000

export async function ask(url: string, method: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { token, body, headers, timeoutMs = hangMs } = asked
  const response = await fetch(url + path, {
    method,
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    text,
    headers: response.headers,
    requestId: response.headers.get('x-request-id') ?? '',
  }
}

/** For setup: throws unless the request succeeds. */
export async function must<Body>(url: string, method: string, path: string, asked: Asked = {}): Promise<Body> {
  const { status, text } = await ask(url, method, path, asked)
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  // The caller names the response type of the route it called.
  return JSON.parse(text) as Body
}

/** The connection was refused or broken, because the service is down. */
export function isCutOff(error: unknown): boolean {
  return error instanceof TypeError
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
