import { historyEndpoints } from '@coffer/contract/history'
import {
  diffSecrets,
  listVersions,
  promoteSecrets,
  readVersion,
  restoreVersion,
} from '../../domain/secret/history/history.ts'
import { restoreRevision } from '../../domain/secret/history/restore.ts'
import { listRevisions } from '../../domain/secret/history/revisions.ts'
import { jsonType } from '../response/serialize.ts'
import { type Routes, sendPage, sendText } from '../route.ts'

export const historyRoutes: Routes = (serve) => {
  serve(historyEndpoints.listVersions, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listVersions(ctx, params, query)),
  )
  serve(historyEndpoints.readVersion, ({ ctx, params, query }) => readVersion(ctx, params, query))
  serve(historyEndpoints.restoreVersion, ({ ctx, params, body }) => restoreVersion(ctx, params, body))
  serve(historyEndpoints.listRevisions, async ({ ctx, params, query }, reply) => {
    const { body, nextCursor } = await listRevisions(ctx, params, query)
    if (nextCursor !== undefined) reply.header('x-next-cursor', nextCursor)
    return sendText(reply, jsonType, body)
  })
  serve(historyEndpoints.restoreRevision, ({ ctx, params, body }) => restoreRevision(ctx, params, body))
  serve(historyEndpoints.diffSecrets, async ({ ctx, params, query }, reply) =>
    sendText(reply, jsonType, await diffSecrets(ctx, params, query)),
  )
  serve(historyEndpoints.promoteSecrets, ({ ctx, params, body }) => promoteSecrets(ctx, params, body))
}
