/**
 * For what is read to be written back whole. A number that JavaScript cannot hold (a large id, say) would come out of
 * JSON.parse as its neighbour; here it stays as it was written.
 */
import { VendorFault } from './fault.ts'

// Both are part of Node, but not yet of the types.
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
