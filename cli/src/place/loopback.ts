/** Addresses of this machine, which no network is between. */

/** Of a valid URL, whose host has one spelling: `127.1` is `127.0.0.1` there. */
export const isLoopback = (url: string): boolean =>
  /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(URL.parse(url)?.hostname ?? '')
