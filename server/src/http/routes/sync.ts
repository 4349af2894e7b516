import { syncEndpoints } from '@coffer/contract/sync'
import {
  deleteSync,
  listSyncProviders,
  listSyncRuns,
  listSyncs,
  pauseSync,
  planSyncNow,
  readSync,
  readSyncRun,
  resumeSync,
  runSyncNow,
} from '../../domain/sync.ts'
import { submitFlowStep } from '../../domain/sync-step.ts'
import { readFlowStep, startSync } from '../../domain/sync-wizard.ts'
import { type Routes, succeed } from '../route.ts'

export const syncRoutes: Routes = (serve) => {
  serve(syncEndpoints.listSyncProviders, ({ ctx }) => listSyncProviders(ctx))
  serve(syncEndpoints.startSync, ({ ctx, params, body }) => startSync(ctx, params, body))
  serve(syncEndpoints.readFlowStep, ({ ctx, params, query }) => readFlowStep(ctx, params, query))
  serve(syncEndpoints.submitFlowStep, ({ ctx, params, body }) => submitFlowStep(ctx, params, body))
  serve(syncEndpoints.listSyncs, ({ ctx, params }) => listSyncs(ctx, params))
  serve(syncEndpoints.readSync, ({ ctx, params }) => readSync(ctx, params))
  serve(syncEndpoints.planSync, ({ ctx, params }) => planSyncNow(ctx, params))
  serve(syncEndpoints.runSync, ({ ctx, params }) => succeed(runSyncNow(ctx, params)))
  serve(syncEndpoints.pauseSync, ({ ctx, params }) => succeed(pauseSync(ctx, params)))
  serve(syncEndpoints.resumeSync, ({ ctx, params }) => succeed(resumeSync(ctx, params)))
  serve(syncEndpoints.deleteSync, ({ ctx, params, query }) => succeed(deleteSync(ctx, params, query)))
  serve(syncEndpoints.listSyncRuns, async ({ ctx, params, query }, reply) => {
    const { runs, nextCursor } = await listSyncRuns(ctx, params, query)
    if (nextCursor !== undefined) reply.header('x-next-cursor', nextCursor)
    return runs
  })
  serve(syncEndpoints.readSyncRun, ({ ctx, params }) => readSyncRun(ctx, params))
}
