/** The private hosts and addresses that the operator allows: COFFER_OUTBOUND_ALLOW. */
import { domainToASCII } from 'node:url'
import {
  type AddressRange,
  isCloudMetadata,
  isInRange,
  isSingleAddress,
  parseAddress,
  parseRange,
} from './address-range.ts'

export type AllowList = { hosts: ReadonlySet<string>; ranges: readonly AddressRange[] }

/** Entries are separated by commas or white space; each is a host name, an address or a range such as 10.0.0.0/8. */
export function parseAllowList(text: string): AllowList {
  const hosts = new Set<string>()
  const ranges: AddressRange[] = []

  for (const entry of text.split(/[\s,]+/).filter((part) => part !== '')) {
    const range = parseRange(entry)
    if (range !== undefined) ranges.push(range)
    else hosts.add(requireHostName(entry))
  }
  return { hosts, ranges }
}

function requireHostName(entry: string): string {
  // domainToASCII silently cuts off everything after such a character, which would allow a different host than the one
  // written.
  const name = /[/?#@:\\]/.test(entry) ? '' : domainToASCII(entry.replace(/\.$/, ''))
  const isName = /^(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name)
  // A name that ends in a number is an IP address in another notation (0177.0.0.1), or a typo (10.0.0/8).
  if (!isName || /(^|\.)(\d+|0x[0-9a-f]*)$/.test(name)) {
    throw new Error(`"${entry}" is not a host name, an IP address or a range such as 10.0.0.0/8.`)
  }
  return name
}

export function isListed(hostname: string, text: string, allow: AllowList): boolean {
  const address = parseAddress(text)
  if (address === undefined) return false

  const matching = allow.ranges.filter((range) => isInRange(address, range))
  // Cloud metadata serves the machine's own credentials: only the exact address allows it, never a range or a host
  // name.
  if (isCloudMetadata(address)) return matching.some(isSingleAddress)
  return matching.length > 0 || allow.hosts.has(hostname)
}
