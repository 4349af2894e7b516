import { secretFileEndpoints } from '@coffer/contract/secret-file'
import { exportSecrets, importSecrets } from '../../../domain/secret/file.ts'
import { type Routes, sendText } from '../../route.ts'

export const secretFileRoutes: Routes = (serve) => {
  serve(secretFileEndpoints.importSecrets, ({ ctx, params, body }) => importSecrets(ctx, params, body))
  serve(secretFileEndpoints.exportSecrets, async ({ ctx, params, query }, reply) => {
    const { body, contentType } = await exportSecrets(ctx, params, query)
    return sendText(reply, contentType, body)
  })
}
