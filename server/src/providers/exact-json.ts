/**
 * For JSON that is read and written back whole. JSON.parse would round numbers that JavaScript cannot represent, such
 * as large ids; here they keep their text.
 */
import { VendorFault } from './fault.ts'

// Node supports both, but its types do not declare them yet.
const parse = JSON.parse as (
  text: string,
  revive: (key: string, value: unknown, at: { source: string }) => unknown,
) => unknown
const rawJson = Reflect.get(JSON, 'rawJSON') as (source: string) => unknown

export function parseExactly(text: string): unknown {
  try {
    return parse(text, (_key, value, { source }) => (typeof value === 'number' ? rawJson(source) : value))
  } catch {
    throw new VendorFault('protocol', 'The answer is no JSON.')
  }
}
