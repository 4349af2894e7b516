import { tokenEndpoints } from '@coffer/contract/token'
import { createCliToken, createToken, listTokens, revokeToken, rotateToken } from '../../../domain/credential/token.ts'
import { type Routes, sendPage, succeed } from '../../route.ts'

export const tokenRoutes: Routes = (serve) => {
  serve(tokenEndpoints.listTokens, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listTokens(ctx, params, query)),
  )
  serve(tokenEndpoints.createToken, ({ ctx, params, body }) => createToken(ctx, params, body))
  serve(tokenEndpoints.createCliToken, ({ ctx, params, body }) => createCliToken(ctx, params, body))
  serve(tokenEndpoints.rotateToken, ({ ctx, params, body }) => rotateToken(ctx, params, body))
  serve(tokenEndpoints.revokeToken, ({ ctx, params }) => succeed(revokeToken(ctx, params)))
}
