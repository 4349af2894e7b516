/** The setup code proves that the creator of the first account can read the log or the settings of the service. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { type Config, isLoopback } from '../../config.ts'
import { Failure } from '../../failure.ts'

export type SetupCode = {
  readonly value: string
  /** Set by the operator: then every client must send it, and it is never logged. */
  readonly isChosen: boolean
  /** Listen address and public URL are loopback, and there is no proxy: no remote client can reach the service. */
  readonly isLocal: boolean
}

export function createSetupCode(config: Config): SetupCode {
  const { setupCode, host, publicUrl, trustedProxies } = config
  const publicHost = new URL(publicUrl).hostname.replace(/^\[|\]$/g, '')
  const isLocal = isLoopback(host) && isLoopback(publicHost) && trustedProxies.length === 0
  return { value: setupCode ?? newSetupCode(), isChosen: setupCode !== undefined, isLocal }
}

type Request = { readonly isDirect?: boolean }

/** The code may be omitted only if neither the settings nor the request suggest a remote client. */
export const needsSetupCode = ({ isChosen, isLocal }: SetupCode, { isDirect }: Request): boolean =>
  isChosen || !isLocal || !isDirect

export function requireSetupCode(code: SetupCode, request: Request, given: string | undefined): void {
  if (!needsSetupCode(code, request) || isEqual(code.value, given ?? '')) return
  throw new Failure(
    'forbidden',
    'setupCode: the first account needs the code in COFFER_SETUP_CODE or, if that is not set, the one in the startup log.',
  )
}

function isEqual(expected: string, actual: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(actual)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** 15 random bytes: short enough to type, too long to guess. */
const newSetupCode = () => randomBytes(15).toString('base64url')
