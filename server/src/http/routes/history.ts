import { historyEndpoints } from '@coffer/contract/history'
import {
  diffSecrets,
  listRevisions,
  listVersions,
  promoteSecrets,
  readVersion,
  restoreVersion,
} from '../../domain/secret/history/history.ts'
import { restoreRevision } from '../../domain/secret/history/restore.ts'
import { jsonType } from '../response/serialize.ts'
import { type Routes, sendPage, sendText } from '../route.ts'

export const historyRoutes: Routes = (serve) => {
  serve(historyEndpoints.listVersions, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listVersions(ctx, params, query)),
  )
  serve(historyEndpoints.readVersion, ({ ctx, params, query }) => readVersion(ctx, params, query))
  serve(historyEndpoints.restoreVersion, ({ ctx, params, body }) => restoreVersion(ctx, params, body))
  serve(historyEndpoints.listRevisions, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await listRevisions(ctx, params, query)),
  )
  serve(historyEndpoints.restoreRevision, ({ ctx, params, body }) => restoreRevision(ctx, params, body))
  serve(historyEndpoints.diffSecrets, async ({ ctx, params, query }, reply) =>
    sendText(reply, jsonType, await diffSecrets(ctx, params, query)),
  )
  serve(historyEndpoints.promoteSecrets, ({ ctx, params, body }) => promoteSecrets(ctx, params, body))
}
