/** The setup code: proves that whoever makes the very first account may read the log or the settings of the service. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { type Config, isLoopback } from '../../config.ts'
import { Failure } from '../../failure.ts'
import type { Context } from '../context.ts'

export type SetupCode = {
  readonly value: string
  /** By the operator: it is asked of everybody, and never logged. */
  readonly isChosen: boolean
  /** Neither settings nor proxies let anybody from elsewhere reach the service. */
  readonly isLocal: boolean
}

export function createSetupCode(config: Config): SetupCode {
  const { setupCode, host, publicUrl, trustedProxies } = config
  const publicHost = new URL(publicUrl).hostname.replace(/^\[|\]$/g, '')
  const isLocal = isLoopback(host) && isLoopback(publicHost) && trustedProxies.length === 0
  return { value: setupCode ?? newSetupCode(), isChosen: setupCode !== undefined, isLocal }
}

/** Without the code only a request that nothing in it, nor in the settings, shows to come from elsewhere. */
export function requireSetupCode(ctx: Context, given: string | undefined): void {
  const { value, isChosen, isLocal } = ctx.setupCode
  if (!isChosen && isLocal && ctx.request.isDirect) return
  if (isEqual(value, given ?? '')) return
  throw new Failure(
    'forbidden',
    'setupCode: the first account needs the code in COFFER_SETUP_CODE or, without one, that the service logged at its start.',
  )
}

function isEqual(expected: string, actual: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(actual)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Short enough to type, long enough not to guess. */
const newSetupCode = () => randomBytes(15).toString('base64url')
