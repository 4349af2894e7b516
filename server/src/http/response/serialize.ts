/** Serialises responses. Only fields that the schema declares leave the server, whatever else the object holds. */
import type { TSchema } from '@coffer/contract/schema'
import build from 'fast-json-stringify'

export const jsonType = 'application/json; charset=utf-8'

/** Compiled on first use: most processes never serve most routes. */
export function serializerOf(schema: TSchema): (value: unknown) => string {
  let serialize: ((value: unknown) => string) | undefined
  return (value) => {
    serialize ??= build(schema)
    return serialize(value)
  }
}
