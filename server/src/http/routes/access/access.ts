import { accessEndpoints } from '@coffer/contract/access'
import { explainAccess } from '../../../domain/explain/explain.ts'
import { listAccess } from '../../../domain/explain/overview.ts'
import { type Routes, sendPage } from '../../route.ts'

export const accessRoutes: Routes = (serve) => {
  serve(accessEndpoints.explainAccess, ({ ctx, params, query }) => explainAccess(ctx, params, query))
  serve(accessEndpoints.listAccess, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listAccess(ctx, params, query)),
  )
}
