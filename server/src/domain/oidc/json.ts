/** Parses JSON objects without duplicate names and without deep nesting: a token with duplicate claims is refused. */
import { findRepeatedName } from '../../json-name.ts'

export type JsonObject = Readonly<Record<string, unknown>>

const maxDepth = 32

export function parseJsonObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    // The cast is safe: JSON.parse returned an object, and its fields stay unknown.
    return isObject && findRepeatedName(text, maxDepth) === undefined ? (value as JsonObject) : undefined
  } catch {
    return undefined
  }
}
