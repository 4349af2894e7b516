import { syncEndpoints } from '@coffer/contract/sync'
import { type Routes, sendPage, succeed } from '../../route.ts'

/**
 * Loaded on the first request to a sync route: start-up does not wait for it, and an installation without syncs saves
 * the memory.
 */
const syncs = () => import('../../../domain/sync/sync.ts')
const wizard = () => import('../../../domain/sync/setup/wizard.ts')
const steps = () => import('../../../domain/sync/setup/step.ts')

export const syncRoutes: Routes = (serve) => {
  serve(syncEndpoints.listSyncProviders, async ({ ctx }) => (await syncs()).listSyncProviders(ctx))
  serve(syncEndpoints.startSync, async ({ ctx, params, body }) => (await wizard()).startSync(ctx, params, body))
  serve(syncEndpoints.readFlowStep, async ({ ctx, params, query }) => (await wizard()).readFlowStep(ctx, params, query))
  serve(syncEndpoints.submitFlowStep, async ({ ctx, params, body }) =>
    (await steps()).submitFlowStep(ctx, params, body),
  )
  serve(syncEndpoints.listSyncs, async ({ ctx, params }) => (await syncs()).listSyncs(ctx, params))
  serve(syncEndpoints.readSync, async ({ ctx, params }) => (await syncs()).readSync(ctx, params))
  serve(syncEndpoints.planSync, async ({ ctx, params }) => (await syncs()).planSyncNow(ctx, params))
  serve(syncEndpoints.runSync, async ({ ctx, params }) => succeed((await syncs()).runSyncNow(ctx, params)))
  serve(syncEndpoints.pauseSync, async ({ ctx, params }) => succeed((await syncs()).pauseSync(ctx, params)))
  serve(syncEndpoints.resumeSync, async ({ ctx, params }) => succeed((await syncs()).resumeSync(ctx, params)))
  serve(syncEndpoints.transferSync, async ({ ctx, params, body }) =>
    succeed((await syncs()).transferSync(ctx, params, body)),
  )
  serve(syncEndpoints.deleteSync, async ({ ctx, params, query }) =>
    succeed((await syncs()).deleteSync(ctx, params, query)),
  )
  serve(syncEndpoints.listSyncRuns, async ({ ctx, params, query }, reply) =>
    sendPage(reply, await (await syncs()).listSyncRuns(ctx, params, query)),
  )
  serve(syncEndpoints.readSyncRun, async ({ ctx, params }) => (await syncs()).readSyncRun(ctx, params))
}
