/**
 * Validates GraphQL documents and variables against a part of a vendor's schema, and resolves them with a few
 * functions.
 */
import { buildSchema, graphqlSync, parse, validate } from 'graphql'
import type { FakeAnswer, FakeRequest } from './fake.ts'

/** Thrown by a resolver: a rejection with the vendor's message. */
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
      // Errors that no resolver threw come from the variables.
      const variableErrors = errors.filter(({ originalError }) => !(originalError instanceof Refusal))
      violations.push(...variableErrors.map(({ message }) => message))
      if (errors.length === 0) return { status: 200, body: { data } }
      const told = errors.map(({ message, originalError }) => ({
        message,
        extensions: { code: originalError instanceof Refusal ? originalError.code : 'BAD_USER_INPUT' },
      }))
      return { status: 200, body: { errors: told, data: data ?? null } }
    },
  }
}
