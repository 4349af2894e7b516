/** Reads vendor responses: unexpected data is a fault, never a crash. */
import { VendorFault } from './fault.ts'

export function at(json: unknown, ...path: (string | number)[]): unknown {
  let value = json
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Reflect.get(value, key)
  }
  return value
}

export function textAt(json: unknown, ...path: (string | number)[]): string {
  const value = maybeTextAt(json, ...path)
  if (value === undefined) throw unexpected(path)
  return value
}

/** Also converts numbers to text, because vendors use both for ids. */
export function maybeTextAt(json: unknown, ...path: (string | number)[]): string | undefined {
  const value = at(json, ...path)
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' ? value : undefined
}

export function listAt(json: unknown, ...path: (string | number)[]): readonly unknown[] {
  const value = at(json, ...path)
  if (!Array.isArray(value)) throw unexpected(path)
  return value
}

export function entriesAt(json: unknown, ...path: (string | number)[]): [string, unknown][] {
  const value = at(json, ...path)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unexpected(path)
  return Object.entries(value)
}

function unexpected(path: readonly (string | number)[]): VendorFault {
  return new VendorFault('protocol', `The response lacks ${path.length === 0 ? 'its content' : path.join('.')}.`)
}
