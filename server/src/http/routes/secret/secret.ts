import { secretEndpoints } from '@coffer/contract/secret'
import { listScopedSecrets, listSecrets, type ReadAnswer, readSecret } from '../../../domain/secret/read/answer.ts'
import { createSecrets, deleteSecret, updateSecret, writeBatch } from '../../../domain/secret/write/change.ts'
import { listTrash, restoreSecret } from '../../../domain/secret/write/trash.ts'
import { writeSecretValue } from '../../../domain/secret/write/value.ts'
import type { Reply } from '../../exchange.ts'
import { jsonType } from '../../response/serialize.ts'
import { type Routes, sendText, succeed } from '../../route.ts'

export const secretRoutes: Routes = (serve) => {
  serve(secretEndpoints.listSecrets, async ({ ctx, params, query }, reply) =>
    send(reply, await listSecrets(ctx, params, query, ifNoneMatch(reply))),
  )
  serve(secretEndpoints.readSecret, async ({ ctx, params, query }, reply) =>
    send(reply, await readSecret(ctx, params, query, ifNoneMatch(reply))),
  )
  serve(secretEndpoints.listScopedSecrets, async ({ ctx }, reply) =>
    send(reply, await listScopedSecrets(ctx, ifNoneMatch(reply))),
  )
  serve(secretEndpoints.createSecrets, ({ ctx, params, body }, reply) => {
    if (body.dryRun) reply.status(200)
    return createSecrets(ctx, params, body)
  })
  serve(secretEndpoints.updateSecret, ({ ctx, params, body }, reply) =>
    succeed(updateSecret(ctx, params, body, ifMatch(reply))),
  )
  serve(secretEndpoints.writeSecretValue, ({ ctx, params, body }, reply) =>
    writeSecretValue(ctx, params, body, ifMatch(reply)),
  )
  serve(secretEndpoints.deleteSecret, ({ ctx, params, query }, reply) =>
    succeed(deleteSecret(ctx, params, query, ifMatch(reply))),
  )
  serve(secretEndpoints.listTrash, ({ ctx, params }) => listTrash(ctx, params))
  serve(secretEndpoints.restoreSecret, ({ ctx, params }) => succeed(restoreSecret(ctx, params)))
  serve(secretEndpoints.writeBatch, ({ ctx, params, body }) => writeBatch(ctx, params, body))
}

const ifNoneMatch = (reply: Reply) => reply.headers['if-none-match']
const ifMatch = (reply: Reply) => reply.headers['if-match']

/** The body is already JSON: it may come from the response cache. */
function send(reply: Reply, { etag, body, bytes }: ReadAnswer): Reply {
  reply.header('etag', etag)
  if (body === undefined) return reply.status(304).send()
  if (bytes !== undefined) reply.header('content-length', bytes)
  return sendText(reply, jsonType, body)
}
