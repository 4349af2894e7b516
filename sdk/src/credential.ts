/** The bearer credential of requests: a token as it is, or a JWT that is exchanged for one and renewed in time. */
import { ResponseError, SettingError } from './error.ts'
import type { Platform } from './platform.ts'
import type { Answer, Request } from './request.ts'
import { createSharedCall, timeLimit } from './shared-call.ts'

/** A JWT that ends this soon is replaced. */
const renewBeforeMs = 60_000

export type CredentialSource = {
  bearer(signal: AbortSignal | undefined): Promise<string>
  /** Forgets a refused JWT. False if there is nothing to get a new one with. */
  drop(bearer: string): boolean
}

type Jwt = { readonly token: string; readonly endsAt: number; readonly renewAt: number }

/** A token or session that is sent with every request. It is asked for each time, so that it may change. */
export function createTokenSource(readToken: (signal?: AbortSignal) => string | Promise<string>): CredentialSource {
  return { bearer: async (signal) => checkedToken(await readToken(signal)), drop: () => false }
}

/** A source that is chosen with the first request. A failed choice is made again. */
export function createLazySource(choose: () => Promise<CredentialSource>): CredentialSource {
  let choice: Promise<CredentialSource> | undefined
  let chosen: CredentialSource | undefined
  return {
    async bearer(signal) {
      choice ??= choose()
      try {
        chosen = await choice
      } catch (error) {
        choice = undefined
        throw error
      }
      return chosen.bearer(signal)
    },
    drop: (bearer) => chosen?.drop(bearer) ?? false,
  }
}

/** JWTs from an exchange. All callers share one, and one request that renews it. */
export function createJwtSource(
  exchange: (signal: AbortSignal) => Promise<Answer>,
  { now }: Platform,
): CredentialSource {
  let jwt: Jwt | undefined

  const renew = createSharedCall(async (signal) => {
    const startedAt = now()
    const { body, status, requestId } = await exchange(signal)
    const { accessToken, expiresIn } = Object(body)
    if (typeof accessToken !== 'string' || typeof expiresIn !== 'number') {
      throw new ResponseError('The exchange has returned no token.', status, requestId)
    }
    const lifeMs = expiresIn * 1000
    // A life shorter than two minutes is used for its first half.
    const renewAt = startedAt + Math.max(lifeMs - renewBeforeMs, lifeMs / 2)
    jwt = { token: checkedToken(accessToken), endsAt: startedAt + lifeMs, renewAt }
    return jwt
  })

  return {
    async bearer(signal) {
      if (jwt && now() < jwt.renewAt) return jwt.token
      if (!jwt || now() >= jwt.endsAt) return (await renew(signal)).token
      // Nobody waits for the renewal while the old one is valid, and a program that is done does not stay for its retries.
      renew(timeLimit(jwt.endsAt - now())).catch(() => undefined)
      return jwt.token
    },
    drop(bearer) {
      if (jwt?.token === bearer) jwt = undefined
      return true
    },
  }
}

/** A header with a line break in it would be refused by the platform with an error that quotes it. */
function checkedToken(text: string): string {
  const token = text.trim()
  if (!/^[\x21-\x7e]{1,16384}$/.test(token)) {
    throw new SettingError('The credential is empty or contains characters that cannot be part of a token.')
  }
  return token
}

/** An API token for a JWT. */
export const tokenExchange = (signal: AbortSignal): Request => ({
  method: 'POST',
  path: '/v1/auth/exchange',
  isRepeatable: true,
  options: { signal },
})

/** The token of a platform for a JWT. */
export const identityExchange = (token: string, workspaceId: string, signal: AbortSignal): Request => ({
  method: 'POST',
  path: '/v1/auth/oidc/exchange',
  body: { token: checkedToken(token), workspaceId },
  isPublic: true,
  isRepeatable: true,
  options: { signal },
})
