/** JSON of other tools. Numbers keep the digits that they are written with; no error quotes the text. */

/** A number is an object that `JSON.stringify` writes as it was read; nothing calculates with it. */
export type Json = string | boolean | null | number | readonly Json[] | JsonRecord
export type JsonRecord = { readonly [name: string]: Json }

type RawJson = {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): Json
}
// Node has these, but the types of TypeScript do not.
const json = JSON as unknown as RawJson

/**
 * One document, or several in a row, such as `op item get -` prints for several items. Undefined if the text is not
 * JSON.
 */
export function parseDocuments(content: string): readonly Json[] | undefined {
  const text = content.replace(/^\ufeff/, '')
  const one = parse(text)
  if (one !== undefined) return [one]
  // No string holds a bare line break, so a closing brace before a line with an opening one ends a document.
  const list = parse(`[${text.replace(/\}\s*\n\s*\{/g, '},{')}]`)
  return Array.isArray(list) && list.every(isRecord) ? list : undefined
}

function parse(text: string): Json | undefined {
  try {
    return json.parse(text, (_, value, { source }) =>
      typeof value === 'number' && source !== undefined ? json.rawJSON(source) : value,
    )
  } catch {
    return undefined
  }
}

export const isRecord = (value: Json | undefined): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !json.isRawJSON(value)

export const isText = (value: Json | undefined): value is string => typeof value === 'string'

/** Text as it is; numbers and booleans as written; objects and lists as JSON. Undefined for null. */
export function textOf(value: Json | undefined): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  return JSON.stringify(value)
}

/** An object in JSON text, such as the value of a secret of AWS. */
export function parseRecord(text: string): JsonRecord | undefined {
  const value = text.trimStart().startsWith('{') ? parse(text) : undefined
  return isRecord(value) ? value : undefined
}
