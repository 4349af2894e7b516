import { shareEndpoints } from '@coffer/contract/share'
import { createShare, listShares, listShareViews, revokeShare } from '../../../domain/share/share.ts'
import { openShare, readShareMeta } from '../../../domain/share/view.ts'
import { type Routes, succeed } from '../../route.ts'

export const shareRoutes: Routes = (serve) => {
  serve(shareEndpoints.createShare, ({ ctx, params, body }) => createShare(ctx, params, body))
  serve(shareEndpoints.listShares, ({ ctx, params }) => listShares(ctx, params))
  serve(shareEndpoints.revokeShare, ({ ctx, params }) => succeed(revokeShare(ctx, params)))
  serve(shareEndpoints.listShareViews, ({ ctx, params }) => listShareViews(ctx, params))
  serve(shareEndpoints.readShareMeta, ({ ctx, params }) => readShareMeta(ctx, params))
  serve(shareEndpoints.openShare, ({ ctx, params, body }) => openShare(ctx, params, body))
}
