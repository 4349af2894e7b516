/** A part of a vendor's GraphQL schema that judges every document and its variables, and answers from a few functions. */
import { buildSchema, graphqlSync, parse, validate } from 'graphql'
import type { FakeAnswer, FakeRequest } from './fake.ts'

/** Thrown by a resolver: the vendor refuses, in its own words. */
export class Refusal extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

export function createGraphqlJudge(schemaText: string, violations: string[]) {
  const schema = buildSchema(schemaText)

  return {
    answer({ method, json }: FakeRequest, rootValue: Record<string, unknown>): FakeAnswer {
      const { query, variables } = (json ?? {}) as { query?: string; variables?: Record<string, unknown> }
      if (method !== 'POST' || typeof query !== 'string') {
        violations.push(`${method} without a document`)
        return { status: 400, body: { errors: [{ message: 'Must provide query string.' }] } }
      }
      const invalid = validate(schema, parse(query))
      if (invalid.length > 0) {
        violations.push(...invalid.map(({ message }) => message))
        return { status: 400, body: { errors: invalid.map(({ message }) => ({ message })) } }
      }
      const { data, errors = [] } = graphqlSync({ schema, source: query, rootValue, variableValues: variables })
      // What no resolver said was found in the variables.
      const unforeseen = errors.filter(({ originalError }) => !(originalError instanceof Refusal))
      violations.push(...unforeseen.map(({ message }) => message))
      if (errors.length === 0) return { status: 200, body: { data } }
      const told = errors.map(({ message, originalError }) => ({
        message,
        extensions: { code: originalError instanceof Refusal ? originalError.code : 'BAD_USER_INPUT' },
      }))
      return { status: 200, body: { errors: told, data: data ?? null } }
    },
  }
}
