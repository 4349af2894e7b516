/** Lists of addresses that requests may come from, for tokens and policies. */
import { type AddressRange, isInRange, parseAddress, parseRange, rangeProblem } from '../address-range.ts'
import { invalid } from '../failure.ts'

export function checkAddresses(entries: readonly string[]): readonly string[] {
  const wrong = entries.find((entry) => parseRange(entry) === undefined)
  if (wrong !== undefined) throw invalid('allowedIps', rangeProblem(wrong))
  return entries
}

export const toRanges = (entries: readonly string[]): readonly AddressRange[] =>
  entries.flatMap((entry) => parseRange(entry) ?? [])

/** False for text that is no address. */
export function isInRanges(text: string, ranges: readonly AddressRange[]): boolean {
  const address = parseAddress(text)
  return address !== undefined && ranges.some((range) => isInRange(address, range))
}
