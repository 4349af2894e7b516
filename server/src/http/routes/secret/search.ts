import { secretSearchEndpoints } from '@coffer/contract/secret-search'
import { searchSecrets } from '../../../domain/secret/search.ts'
import { type Routes, sendPage } from '../../route.ts'

export const secretSearchRoutes: Routes = (serve) => {
  serve(secretSearchEndpoints.searchSecrets, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await searchSecrets(ctx, params, query)),
  )
}
