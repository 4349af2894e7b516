/** A request of the client and its answer. */
import { CofferError } from './error.ts'

/** Details of a response beside its body. */
export type ResponseDetails = {
  readonly status: number
  readonly requestId: string | undefined
  readonly etag: string | undefined
  /** Of the next page of a list; undefined on the last page. */
  readonly nextCursor: string | undefined
  /** Names that an export for shells leaves out, because programs obey such variables. */
  readonly leftOut: readonly string[]
  /** The time back to which a search has looked. */
  readonly searchedTo: string | undefined
}

export type CallOptions = {
  /** Ends the call, its retries included. */
  readonly signal?: AbortSignal
  /** For one attempt; 10 seconds by default. */
  readonly timeoutMs?: number
  /** ETag of an earlier read: a change is refused with 412 if the secret has changed since. */
  readonly ifMatch?: string
  /** Called with the details of the response. */
  readonly onResponse?: (details: ResponseDetails) => void
}

export type QueryValue = string | number | boolean | readonly string[] | undefined

export type Request = {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly body?: unknown
  readonly ifNoneMatch?: string | undefined
  /** No credential is sent. */
  readonly isPublic?: boolean
  /** Safe to send twice, like a GET. */
  readonly isRepeatable?: boolean
  /** The response may be text that is not JSON. */
  readonly allowsText?: boolean
  readonly options?: CallOptions | undefined
}

export type Answer = ResponseDetails & {
  /** Parsed; undefined for 304. */
  readonly body: unknown
}

export function withQuery(path: string, query: Readonly<Record<string, QueryValue>> = {}): string {
  const fields = Object.entries(query).flatMap(([name, value]) =>
    (value === undefined ? [] : [value].flat()).map((one): [string, string] => [name, String(one)]),
  )
  return fields.length === 0 ? path : `${path}?${new URLSearchParams(fields)}`
}

/** Fills in `:name` of a path. An empty name, `.` or `..` would lead to another path, such as that of the whole list. */
export function withParams(path: string, params: Readonly<Record<string, string | number>>): string {
  return path.replace(/:(\w+)/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined || /^\.{0,2}$/.test(String(value)))
      throw new CofferError(`${name} must be a name or an id.`)
    return encodeURIComponent(value)
  })
}
