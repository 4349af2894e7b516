import { secretFileEndpoints } from '@coffer/contract/secret-file'
import { exportSecrets, importSecrets } from '../../../domain/secret/file.ts'
import { type Routes, sendText } from '../../route.ts'

export const secretFileRoutes: Routes = (serve) => {
  serve(secretFileEndpoints.importSecrets, ({ ctx, params, body }) => importSecrets(ctx, params, body))
  serve(secretFileEndpoints.exportSecrets, async ({ ctx, params, query }, reply) => {
    const { body, contentType, leftOut } = await exportSecrets(ctx, params, query)
    if (leftOut.length > 0) reply.header('x-coffer-left-out', listed(leftOut))
    return sendText(reply, contentType, body)
  })
}

/** Clients refuse heads of more than 16 KiB; the file names all of them. */
const maxListed = 4_096

const listed = (names: readonly string[]): string => {
  const all = names.join(', ')
  return all.length <= maxListed ? all : all.slice(0, all.lastIndexOf(',', maxListed))
}
