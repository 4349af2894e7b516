/** Asks the service that runs on this machine with the same settings, if there is one. */
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Config } from '../../config.ts'
import { createOutbound, OutboundError } from '../../outbound.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const withinMs = 5_000

export function runningChecks(config: Config): Check[] {
  // The port is known to the service alone.
  if (config.port === 0) return []
  return [
    {
      name: 'service',
      why: 'It could not be asked.',
      fix: 'look at its log.',
      run: () => checkService(config),
    },
  ]
}

type Ready = { readonly status?: unknown; readonly untrustedForwarded?: unknown }

async function checkService(config: Config): Promise<Finding | readonly Finding[]> {
  const place = `${addressOf(config)} port ${config.port}`
  const answer = await ask(config).catch((error: unknown) => {
    if (error instanceof OutboundError) return error
    throw error
  })
  if (answer instanceof OutboundError) {
    if (answer.isUnreached && !answer.isUntrusted) return ok(`does not run at ${place}`)
    return note(`something at ${place} does not answer as it should`, 'It could not be asked.', 'look at its log.')
  }
  if (answer.status === 503) {
    return wrong(`runs at ${place}, but is not ready`, 'It serves nobody.', 'look at its log, and at GET /readyz.')
  }
  const { status, untrustedForwarded } = parse(answer.body)
  if (status !== 'ready') {
    return note(`another program answers at ${place}`, 'The service cannot listen there.', 'set COFFER_PORT.')
  }
  return [ok(`ready at ${place}`), ...judgeProxy(untrustedForwarded)]
}

function judgeProxy(count: unknown): Finding[] {
  if (typeof count !== 'number' || count === 0) return []
  return [
    note(
      `${count} requests came with X-Forwarded-For from an address that is not trusted`,
      'If that is your proxy, all clients behind it share one rate limit, and audit entries show its address.',
      'set COFFER_TRUSTED_PROXIES to the address of the proxy, which the log of the service names.',
    ),
  ]
}

/** With TLS, the name of the public URL is asked at the address of the service, so that its certificate is checked. */
async function ask(config: Config) {
  const { tls, port, publicUrl } = config
  const address = addressOf(config)
  const family = address.includes(':') ? 6 : 4
  const path = '/readyz?verbose'
  if (!tls) {
    const host = family === 6 ? `[${address}]` : address
    const outbound = createOutbound({ allow: nowhere })
    return outbound.request({ reach: 'operator', url: `http://${host}:${port}${path}`, timeoutMs: withinMs })
  }
  const { rootCertificates } = process.getBuiltinModule('node:tls')
  const ca = [...rootCertificates, await readFile(tls.certificateFile, 'utf8')]
  const resolve = async () => [{ address, family }]
  const outbound = createOutbound({ allow: nowhere, ca, ...(isIP(address) > 0 && { resolve }) })
  const url = `https://${new URL(publicUrl).hostname}:${port}${path}`
  return outbound.request({ reach: 'operator', url, timeoutMs: withinMs })
}

const nowhere = { hosts: new Set<string>(), ranges: [] }

/** Where the service is found from this machine. */
function addressOf({ host }: Config): string {
  if (host === '0.0.0.0' || host === 'localhost') return '127.0.0.1'
  return host === '::' ? '::1' : host
}

function parse(body: Buffer): Ready {
  try {
    return Object(JSON.parse(body.toString()))
  } catch {
    return {}
  }
}
