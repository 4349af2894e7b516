/** Addresses of this machine, which no network is between. */

/** Takes a valid URL, in which a host has one spelling: `127.1` has become `127.0.0.1`. */
export const isLoopback = (url: string): boolean =>
  /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(URL.parse(url)?.hostname ?? '')
