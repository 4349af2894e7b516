/** The service that runs on this machine with the same settings, if there is one. */
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { installation } from '../../installation.ts'
import { OutboundError } from '../../outbound.ts'
import { askService, listeningAddress } from '../ask-service.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const withinMs = 5_000

/** `own` identifies the store of these settings, if it could be opened. */
export function runningChecks(config: Config, _env: unknown, own: string | undefined): Check[] {
  // The port is known to the service alone.
  if (config.port === 0) return []
  return [
    {
      name: 'service',
      why: 'It could not be asked.',
      fix: 'look at its log.',
      run: () => checkService(config, own),
    },
  ]
}

type Ready = {
  readonly status?: unknown
  readonly untrustedForwarded?: unknown
  readonly message?: unknown
  readonly checks?: unknown
  readonly installation?: unknown
}

async function checkService(config: Config, own: string | undefined): Promise<Finding | readonly Finding[]> {
  const place = `${listeningAddress(config)} port ${config.port}`
  const answer = await askService(config, '/readyz?verbose', withinMs).catch((error: unknown) => {
    if (error instanceof OutboundError) return error
    throw error
  })
  if (answer instanceof OutboundError) {
    if (answer.isCertificateRefused) {
      return note(
        `a service runs at ${place}, but its certificate is refused: ${answer.message}`,
        'It could not be asked, and clients that know no more than this machine refuse it too.',
        'set COFFER_PUBLIC_URL to a name of the certificate, NODE_EXTRA_CA_CERTS to the file of its authority, or renew it.',
      )
    }
    if (answer.isUnreached) return ok(`does not run at ${place}`)
    return note(`something at ${place} does not answer as it should`, 'It could not be asked.', 'look at its log.')
  }
  const { status, untrustedForwarded, message, checks, installation: found } = parse(answer.body)
  if (message === new Failure('sealed').message) {
    return wrong(
      `runs at ${place}, but is sealed`,
      'It serves nobody until it has the shares of its master key.',
      `run "${installation.command} keys unseal" on this machine.`,
    )
  }
  if (answer.status === 503) {
    const reason = sentencesOf(checks)
    const fix = 'look at its log, and at GET /readyz?verbose.'
    return wrong(`runs at ${place}, but is not ready${reason && `: ${reason}`}`, 'It serves nobody.', fix)
  }
  if (status !== 'ready') {
    return note(`another program answers at ${place}`, 'The service cannot listen there.', 'set COFFER_PORT.')
  }
  if (own === undefined || typeof found !== 'string') {
    return note(
      `a service is ready at ${place}, perhaps of another store`,
      'The store of these settings does not open, or that service is of version 0.1.0 and does not name its store.',
      'check that it is the service of these settings, or choose another port with COFFER_PORT.',
    )
  }
  if (found !== own) {
    return wrong(
      `the service at ${place} serves another store than these settings name`,
      'This installation cannot listen there, and whatever is asked at that port is answered from the other store.',
      'run doctor with the settings of that service, or choose another port with COFFER_PORT.',
    )
  }
  return [ok(`ready at ${place}`), ...judgeProxy(untrustedForwarded)]
}

/** Sentences of the checks that failed, as the service words them. */
function sentencesOf(checks: unknown): string {
  if (!Array.isArray(checks)) return ''
  const failed = checks.map((check: unknown): Record<string, unknown> => Object(check)).filter(({ ok }) => ok === false)
  return failed.flatMap(({ message }) => (typeof message === 'string' ? JSON.stringify(message) : [])).join(' ')
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

function parse(body: Buffer): Ready {
  try {
    return Object(JSON.parse(body.toString()))
  } catch {
    return {}
  }
}
