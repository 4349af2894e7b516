import { tokenEndpoints } from '@coffer/contract/token'
import { listTokens, revokeToken, rotateToken } from '../../../domain/credential/token.ts'
import { createCliToken, createToken } from '../../../domain/credential/token-issue.ts'
import { transferToken } from '../../../domain/credential/token-transfer.ts'
import { type Routes, sendPage, succeed } from '../../route.ts'

export const tokenRoutes: Routes = (serve) => {
  serve(tokenEndpoints.listTokens, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listTokens(ctx, params, query)),
  )
  serve(tokenEndpoints.createToken, ({ ctx, params, body }) => createToken(ctx, params, body))
  serve(tokenEndpoints.createCliToken, ({ ctx, params, body }) => createCliToken(ctx, params, body))
  serve(tokenEndpoints.rotateToken, ({ ctx, params, body }) => rotateToken(ctx, params, body))
  serve(tokenEndpoints.transferToken, ({ ctx, params, body }) => transferToken(ctx, params, body))
  serve(tokenEndpoints.revokeToken, ({ ctx, params }) => succeed(revokeToken(ctx, params)))
}
