/** Issues Coffer's own JWTs, in exchange for an API token or for a token of an outside issuer. */
import type { AccessToken } from '@coffer/contract/auth'
import { type JwtClaims, jwtLifetimeSeconds, signJwt } from '../../crypto/jwt.ts'
import type { Context } from '../context.ts'
import { secondMs } from '../time.ts'

type Origin = Pick<JwtClaims, 'sub' | 'kind' | 'workspace' | 'generation'>

export function issueJwt(ctx: Context, origin: Origin): AccessToken {
  const issuedAt = Math.floor(ctx.now() / secondMs)
  const times = { iat: issuedAt, exp: issuedAt + jwtLifetimeSeconds }
  const accessToken = signJwt(ctx.keys.signer('jwt'), { iss: ctx.config.publicUrl, ...origin, ...times })
  return { accessToken, expiresIn: jwtLifetimeSeconds, tokenType: 'Bearer' }
}
