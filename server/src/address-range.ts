/**
 * IP addresses as numbers, and the ranges that are not the public internet. Text that cannot be parsed as an address
 * counts as special-purpose: an unknown notation must not bypass the check.
 */
import { isIPv4, isIPv6 } from 'node:net'

export type Address = { family: 4 | 6; bits: bigint }
export type AddressRange = { family: 4 | 6; network: bigint; prefixLength: number }

/** Returns an IPv4-mapped IPv6 address as IPv4, since the kernel would connect to that. */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return { family: 4, bits: bitsOfGroups(text.split('.').map(Number), 8n) }
  // A zone ("fe80::1%eth0") only exists on link-local addresses and is not part of the number.
  if (!isIPv6(text) || text.includes('%')) return undefined

  const bits = bitsOfIPv6(text)
  return bits >> 32n === 0xffffn ? { family: 4, bits: bits & 0xffff_ffffn } : { family: 6, bits }
}

/** Returns an IPv4-mapped address in dotted notation, and any other text unchanged. */
export function plainAddress(text: string): string {
  if (!text.includes(':')) return text
  const address = parseAddress(text)
  if (address?.family !== 4) return text
  return [24n, 16n, 8n, 0n].map((shift) => String((address.bits >> shift) & 0xffn)).join('.')
}

/**
 * Parses "10.0.0.0/8" or a single address. Returns undefined if bits are set beyond the prefix, which is most likely a
 * typo.
 */
export function parseRange(text: string): AddressRange | undefined {
  const [addressText = '', prefixText, ...rest] = text.split('/')
  const address = parseAddress(addressText)
  if (address === undefined || rest.length > 0) return undefined

  const width = widthOf(address.family)
  if (prefixText === undefined) return { family: address.family, network: address.bits, prefixLength: width }

  const isMapped = address.family === 4 && isIPv6(addressText)
  if (isMapped || !/^\d{1,3}$/.test(prefixText) || Number(prefixText) > width) return undefined
  const range = { family: address.family, network: address.bits, prefixLength: Number(prefixText) }
  return BigInt.asUintN(width - range.prefixLength, range.network) === 0n ? range : undefined
}

/** Explains why a range cannot be parsed, and what to write instead. */
export function rangeProblem(text: string): string {
  const meant = meantRange(text)
  return meant ? `${text} has host bits set: write ${meant}.` : `${text} is not an IP address or CIDR range.`
}

/** Suggests the range that was probably meant: "10.0.0.0/8" for "10.0.0.1/8". */
export function meantRange(text: string): string | undefined {
  const [addressText = '', prefixText = ''] = text.split('/')
  const address = parseAddress(addressText)
  if (!address || !/^\d{1,3}$/.test(prefixText)) return undefined
  const width = address.family === 4 ? 32n : 128n
  const hostBits = width - BigInt(prefixText)
  if (hostBits < 0n) return undefined
  const meant = `${textOf(address.family, (address.bits >> hostBits) << hostBits)}/${prefixText}`
  return parseRange(meant) && !parseRange(text) ? meant : undefined
}

function textOf(family: 4 | 6, bits: bigint): string {
  const hex = bits.toString(16).padStart(family === 4 ? 8 : 32, '0')
  if (family === 4) return (hex.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)).join('.')
  return new URL(`http://[${(hex.match(/..../g) ?? []).join(':')}]`).hostname.slice(1, -1)
}

export function isInRange(address: Address, range: AddressRange): boolean {
  const hostBits = BigInt(widthOf(range.family) - range.prefixLength)
  return address.family === range.family && address.bits >> hostBits === range.network >> hostBits
}

export function isSingleAddress(range: AddressRange): boolean {
  return range.prefixLength === widthOf(range.family)
}

/** True for the IANA special-purpose ranges that a request to the public internet must not reach. */
export function isSpecialPurpose(address: Address): boolean {
  if (isCloudMetadata(address)) return true
  if (address.family === 4) return specialIPv4.some((range) => isInRange(address, range))
  return !isInRange(address, globalUnicastIPv6) || specialIPv6.some((range) => isInRange(address, range))
}

/**
 * True for addresses where a cloud serves the machine's own credentials. A wide allowed range must not include them by
 * accident.
 */
export function isCloudMetadata(address: Address): boolean {
  return cloudMetadata.some((range) => isInRange(address, range))
}

function widthOf(family: 4 | 6): number {
  return family === 4 ? 32 : 128
}

function bitsOfGroups(groups: number[], groupWidth: bigint): bigint {
  return groups.reduce((bits, group) => (bits << groupWidth) | BigInt(group), 0n)
}

/** Whom an address belongs to: a client with IPv6 owns at least a /64, each address of which is the same client. */
export const clientNetwork = (ip: string): string => networkOf(ip, 64)

/** A /48 is what one customer of a provider is given; of IPv4 it is the address itself. */
export const clientSite = (ip: string): string => networkOf(ip, 48)

function networkOf(ip: string, prefix: number): string {
  if (!ip.includes(':')) return ip
  const address = parseAddress(ip)
  if (!address) return ip
  return address.family === 4 ? plainAddress(ip) : `${(address.bits >> BigInt(128 - prefix)).toString(16)}/${prefix}`
}

function bitsOfIPv6(text: string): bigint {
  // The URL parser normalises every notation, including a dotted tail, to plain hexadecimal groups.
  const [head = '', tail = ''] = new URL(`http://[${text}]`).hostname.slice(1, -1).split('::')
  const before = hexGroups(head)
  const after = hexGroups(tail)
  const zeros = new Array<number>(8 - before.length - after.length).fill(0)
  return bitsOfGroups([...before, ...zeros, ...after], 16n)
}

function hexGroups(text: string): number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))
}

function range(text: string): AddressRange {
  const parsed = parseRange(text)
  if (parsed === undefined) throw new Error(`${text} is not an address range.`)
  return parsed
}

const specialIPv4 = [
  '0.0.0.0/8', // this host
  '10.0.0.0/8', // private
  '100.64.0.0/10', // carrier-grade NAT
  '127.0.0.0/8', // loopback
  '169.254.0.0/16', // link-local
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relay
  '192.168.0.0/16', // private
  '198.18.0.0/15', // benchmark
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved and broadcast
].map(range)

// Only this block is assigned to public networks. Loopback, unique local, link-local, multicast, NAT64, discard and
// IPv4-compatible addresses all lie outside it, as will any future special range.
const globalUnicastIPv6 = range('2000::/3')

const specialIPv6 = [
  '2001::/23', // protocol assignments, Teredo among them
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '3fff::/20', // documentation
].map(range)

const cloudMetadata = [
  '169.254.169.254', // AWS, Google Cloud, Azure and most others
  '169.254.170.2', // AWS ECS
  '169.254.170.23', // AWS EKS
  'fd00:ec2::254', // AWS
  'fd00:ec2::23', // AWS EKS
  'fd20:ce::254', // Google Cloud
  '100.100.100.200', // Alibaba Cloud
  '168.63.129.16', // Azure, although a public number
].map(range)
