/** Answers as text: only what the schema declares leaves, whatever else the object holds. */
import type { TSchema } from '@coffer/contract/schema'
import build from 'fast-json-stringify'
import type { FastifySerializerCompiler } from 'fastify'

/** Compiled when it is first needed: most processes never serve most routes. */
export const serializerCompiler: FastifySerializerCompiler<TSchema> = ({ schema }) => {
  let serialize: ((data: unknown) => string) | undefined
  return (data) => {
    serialize ??= build(schema)
    return serialize(data)
  }
}
