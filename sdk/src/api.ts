/** A typed call for every endpoint of the service. */
import { type ConnectOptions, connect } from './connect.ts'
import type { Api } from './contract-types.ts'
import { endpointTable } from './endpoint-table.ts'
import { ResponseError } from './error.ts'
import { type CallOptions, type QueryValue, withParams, withQuery } from './request.ts'

type Fields = Readonly<Record<string, string | number>>
type Query = Readonly<Record<string, QueryValue>>

/** Arguments of a call: the fields of the path, the query and the body, as far as the endpoint has them; then options. */
export function createApi(options: ConnectOptions = {}): Api {
  const { client } = connect(options)

  const callOf =
    ([method, path, flags]: readonly [string, string, string]) =>
    async (...given: readonly unknown[]) => {
      const left = [...given]
      const params = path.includes(':') ? (left.shift() as Fields) : {}
      const query = flags.includes('q') ? (left.shift() as Query | undefined) : undefined
      const body = flags.includes('b') ? (left.shift() ?? {}) : undefined
      const { body: answer } = await client.send({
        method,
        path: withQuery(withParams(path, params), query),
        body,
        isPublic: flags.includes('p'),
        allowsText: flags.includes('t'),
        options: left.shift() as CallOptions | undefined,
      })
      return answer
    }

  const areas = Object.entries(endpointTable).map(([area, rows]) => [
    area,
    Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, callOf(row)])),
  ])
  // The table and the type are generated from the same contract.
  return Object.fromEntries(areas) as Api
}

type ListCall<Params, ListQuery, Item> = (params: Params, query?: ListQuery, options?: CallOptions) => Promise<Item[]>

/** All items of a list with pages: `for await (const entry of listAll(api.audit.list, { ws }))`. */
export async function* listAll<Params, ListQuery extends { cursor?: string }, Item>(
  list: ListCall<Params, ListQuery, Item>,
  params: Params,
  query?: NoInfer<ListQuery>,
  options: CallOptions = {},
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined
  do {
    const asked = { ...query, ...(cursor !== undefined && { cursor }) } as ListQuery
    cursor = undefined
    const items = await list(params, asked, {
      ...options,
      onResponse(details) {
        cursor = details.nextCursor
        options.onResponse?.(details)
      },
    })
    if (cursor !== undefined && cursor === asked.cursor) {
      throw new ResponseError('The list does not end: its next page is the same one.', 200)
    }
    yield* items
  } while (cursor !== undefined)
}
