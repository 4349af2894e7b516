/** Checks of the service: reachable, encrypted, the same time, a matching version. */
import type { AuthState } from '@coffer/sdk'
import { nodeTransport } from '@coffer/sdk/node'
import type { Context } from '../context.ts'
import { describeDuration } from '../duration.ts'
import { isLoopback } from '../place/loopback.ts'
import { version } from '../version.ts'
import { type Check, fail, ok, warn } from './check.ts'

const limitMs = 5_000
/** Codes of authenticator apps and tokens of platforms are valid for about this time. */
const maxSkewMs = 30_000

export async function checkService(ctx: Context, url: string): Promise<Check[]> {
  const startedAt = performance.now()
  try {
    const { status, header, body } = await nodeTransport({
      method: 'GET',
      url: `${url}/v1/auth/state`,
      headers: { accept: 'application/json' },
      body: undefined,
      maxBytes: 100_000,
      signal: AbortSignal.timeout(limitMs),
    })
    const tookMs = Math.round(performance.now() - startedAt)
    const state = parseState(body)
    if (status !== 200 || !state) {
      const hint = status === 429 ? 'wait a minute' : 'coffer login URL'
      return [fail('service', `${url} does not answer like a Coffer service (status ${status}).`, hint)]
    }
    return [
      ok('service', `${url} answers in ${tookMs} ms`),
      checkEncryption(url),
      checkClock(ctx, header('date')),
      checkVersion(state.version),
    ]
  } catch (error) {
    const { code, name } = Object(error)
    const reason = name === 'TimeoutError' || name === 'AbortError' ? `no answer within ${limitMs / 1_000} s` : code
    return [fail('service', `${url} cannot be reached (${reason ?? 'unknown'}).`, hintFor(String(code)))]
  }
}

function hintFor(code: string): string {
  return /CERT|SELF_SIGNED|ISSUER|SSL|TLS/.test(code)
    ? 'NODE_EXTRA_CA_CERTS=/path/to/ca.pem, if the service has a certificate of your own authority'
    : 'check the address, the network, and that the service runs'
}

function parseState(body: string): AuthState | undefined {
  try {
    const state = JSON.parse(body)
    return typeof Object(state).needsSetup === 'boolean' && typeof state.version === 'string' ? state : undefined
  } catch {
    return undefined
  }
}

function checkEncryption(url: string): Check {
  if (url.startsWith('https:')) return ok('encryption', 'TLS, with a certificate that this machine trusts')
  return isLoopback(url)
    ? ok('encryption', 'none, and none needed: the service is on this machine')
    : warn('encryption', 'Others on the network can read the secrets: the address is http.', 'use https')
}

function checkClock({ now }: Context, date: string | undefined): Check {
  const at = Date.parse(date ?? '')
  if (Number.isNaN(at)) return warn('clock', 'The service does not say what time it is.')
  const skewMs = now() - at
  // The header has whole seconds.
  if (Math.abs(skewMs) < maxSkewMs) return ok('clock', 'agrees with the service')
  const word = skewMs > 0 ? 'ahead of' : 'behind'
  return warn('clock', `This machine is ${describeDuration(Math.abs(skewMs))} ${word} the service.`, 'set the clock')
}

/** A difference in the patch version is fine. */
function checkVersion(ofService: string): Check {
  const minor = (text: string) => text.split('.').slice(0, 2).join('.')
  const both = `service ${ofService}, command line ${version}`
  return minor(ofService) === minor(version)
    ? ok('version', both)
    : warn('version', `The versions differ: ${both}.`, 'install the same version')
}
