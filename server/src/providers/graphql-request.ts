/** GraphQL: one URL, and errors with status 200 that are recognised by code or message. */
import { type FaultKind, VendorFault } from './fault.ts'
import type { Connection } from './provider.ts'
import { faultOf, type VendorResponse } from './vendor-http.ts'
import { at, maybeTextAt } from './vendor-json.ts'

type GraphqlRequest = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly document: string
  readonly variables?: Readonly<Record<string, unknown>>
  /** Maps the vendor's error to a kind; undefined if the error says nothing. */
  readonly sort: (error: { readonly message: string; readonly code: string }) => FaultKind | undefined
}

/** Returns `data` of a response without errors. */
export async function askGraphql(connection: Connection, request: GraphqlRequest): Promise<unknown> {
  const { url, headers, document, variables } = request
  const sort = ({ json }: VendorResponse) =>
    at(json, 'errors', 0) === undefined
      ? undefined
      : request.sort({
          message: maybeTextAt(json, 'errors', 0, 'message') ?? '',
          code: maybeTextAt(json, 'errors', 0, 'extensions', 'code') ?? '',
        })
  const response = await connection.http.send({
    method: 'POST',
    url,
    headers,
    json: { query: document, ...(variables !== undefined && { variables }) },
    isRead: !/^\s*mutation\b/.test(document),
    sort,
  })
  const hasErrors = at(response.json, 'errors', 0) !== undefined
  if (hasErrors) throw faultOf(response, connection.now(), sort(response) ?? 'invalid')
  const data = at(response.json, 'data')
  // A proxy's page may have status 200 too; then the write never arrived.
  if (typeof data !== 'object' || data === null) throw new VendorFault('protocol', 'The response lacks data.')
  return data
}
