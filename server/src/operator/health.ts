/** `health`: asks the service on this machine whether it is up, for systems that can only run a command. */
import { isIP } from 'node:net'
import type { Config } from '../config.ts'
import { createOutbound, OutboundError } from '../outbound.ts'
import { parseAllowList } from '../outbound-allow.ts'
import type { Print } from './with-operator.ts'

const timeoutMs = 4_000

/** Returns the exit code: 0 if the service is up, 1 otherwise. */
export async function checkHealth({ host, port, publicUrl, tls }: Config, print: Print): Promise<number> {
  const address = listeningAddress(host)
  // The certificate is for the public name, and the service listens here.
  const resolve = async () => [{ address, family: isIP(address), port }]
  const outbound = createOutbound({ allow: parseAllowList(''), resolve })
  const { hostname } = new URL(publicUrl)
  const name = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? hostname : 'localhost'
  const url = tls ? `https://${name}/healthz` : 'http://localhost/healthz'
  try {
    const { status } = await outbound.request({ reach: 'operator', url, timeoutMs })
    print(`The service on port ${port} answers with status ${status}.\n`)
    return status === 200 ? 0 : 1
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    print(`The service on port ${port}: ${error.message}\n`)
    // The process has answered. Whether clients trust its certificate is another question.
    return error.isUntrusted ? 0 : 1
  }
}

/** The address of this machine that reaches a service which listens on the given host. */
function listeningAddress(host: string): string {
  if (host === '0.0.0.0' || host === 'localhost') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
