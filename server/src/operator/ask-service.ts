/** Asks the service that runs on this machine with the same settings. */
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Config } from '../config.ts'
import { createOutbound, type OutboundResponse } from '../outbound.ts'
import { parseAllowList } from '../outbound-allow.ts'

/** Throws an OutboundError if the service does not answer. */
export async function askService(config: Config, path: string, timeoutMs: number): Promise<OutboundResponse> {
  const { port, publicUrl, tls } = config
  const address = listeningAddress(config)
  // The certificate is for the public name, and the service listens here.
  const resolve = async () => [{ address, family: isIP(address), port }]
  const { hostname } = new URL(publicUrl)
  const name = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? hostname : 'localhost'
  const ca = tls && (await trustedBy(tls.certificateFile))
  const outbound = createOutbound({ allow: parseAllowList(''), resolve, ...(ca && { ca }) })
  return outbound.request({ reach: 'operator', url: `${tls ? 'https' : 'http'}://${name}${path}`, timeoutMs })
}

/** The address of this machine that reaches a service which listens on the given host. */
export function listeningAddress({ host }: Pick<Config, 'host'>): string {
  if (host === '0.0.0.0' || host === 'localhost') return '127.0.0.1'
  return host === '::' ? '::1' : host
}

/** A certificate that signs itself is known here, since the operator has chosen it. So are those of NODE_EXTRA_CA_CERTS. */
async function trustedBy(certificateFile: string): Promise<string[]> {
  const own = await readFile(certificateFile, 'utf8').catch(() => undefined)
  return [...process.getBuiltinModule('node:tls').getCACertificates('default'), ...(own === undefined ? [] : [own])]
}
