/** Origins of self-hosted servers: scheme, host and port only. */

const pattern = /^https?:\/\/(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:\d{1,5})?$/i

/** For the `check` of a field; accepts a trailing slash. Which hosts may be reached is decided by outbound.ts. */
export function checkOrigin(value: string): string | undefined {
  if (pattern.test(value.replace(/\/+$/, '')) && URL.canParse(value)) return undefined
  return 'is not an address such as https://server.example.com, optionally with a port, and without a path.'
}

/** Normalises an address, for requests and fingerprints. */
export const originOf = (address: string) => URL.parse(address)?.origin ?? address
