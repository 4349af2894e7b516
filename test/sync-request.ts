/**
 * Requests to every endpoint about syncs for one tenant. No vendor is reachable, so requests that need one return 503.
 */
import type { syncEndpoints } from '@coffer/contract/sync'
import { type Ask, absentId, one } from './ask.ts'
import type { World } from './world.ts'

export function syncAsks(world: World): Record<keyof typeof syncEndpoints, readonly Ask[]> {
  const { projects, environments, syncs } = world
  const on = projects.right
  const into = environments.right
  const list = `/v1/workspace/${world.slug}/project/${on}/sync`
  const draft = `${list}/${syncs.draft}`
  const live = `${list}/${syncs.live}`
  const absent = `${list}/${absentId}`
  const flow = '/v1/sync/heroku/flow'
  const toService = { serviceAccountId: world.service.id }
  const answers = (syncConfigId: string, step: string, values: Record<string, string> = {}) => ({
    syncConfigId,
    step,
    values,
  })
  /** One request each for the draft, the live and an absent sync. */
  const each = (end: string, ofDraft: Partial<Ask>, ofLive: Partial<Ask>): Ask[] => [
    one('being set up', `${draft}${end}`, { on, ...ofDraft }),
    one('running', `${live}${end}`, { on, into, ...ofLive }),
    one('absent', `${absent}${end}`, { on, into: absentId }),
  ]
  return {
    listSyncProviders: [one('all', '/v1/sync')],
    startSync: [
      one('start', '/v1/sync/heroku/start', { on, body: { projectId: on, name: 'A third' } }),
      one('without a name', '/v1/sync/heroku/start', { on, body: { projectId: on } }),
      one('a name in use', '/v1/sync/heroku/start', {
        on,
        body: { projectId: on, name: 'Running' },
        status: 409,
      }),
      one('in an absent project', '/v1/sync/heroku/start', { on: absentId, body: { projectId: absentId } }),
      one('of an unknown provider', '/v1/sync/nothing/start', { on, body: { projectId: on }, status: 404 }),
    ],
    readFlowStep: [
      one('first step', `${flow}?syncConfigId=${syncs.draft}&step=auth`, { on }),
      one('too early', `${flow}?syncConfigId=${syncs.draft}&step=review`, { on, status: 409 }),
      one('absent', `${flow}?syncConfigId=${absentId}&step=auth`, { on: absentId }),
      one('of another provider', `/v1/sync/webhook/flow?syncConfigId=${syncs.draft}&step=auth`, { on, status: 404 }),
    ],
    submitFlowStep: [
      one('incomplete', flow, { on, body: answers(syncs.draft, 'auth'), status: 400 }),
      one('vendor unreachable', flow, { on, body: answers(syncs.draft, 'auth', { token: 'HRKU-x' }), status: 503 }),
      one('too early', flow, { on, body: answers(syncs.draft, 'mapping'), status: 409 }),
      one('of a running sync', flow, {
        on,
        into,
        body: answers(syncs.live, 'mapping', { environment: environments.right, prefix: 'APP_' }),
      }),
      one('absent', flow, { on: absentId, body: answers(absentId, 'auth') }),
    ],
    listSyncs: [one('list', list, { on })],
    readSync: each('', {}, {}),
    planSync: each('/plan', { status: 409 }, { status: 503 }),
    runSync: each('/run', { status: 409 }, {}),
    pauseSync: each('/pause', { status: 409 }, {}),
    resumeSync: each('/resume', { status: 409 }, { status: 409 }),
    transferSync: [
      one('being set up', `${draft}/transfer`, { on, body: toService, status: 409 }),
      one('running', `${live}/transfer`, { on, into, body: toService }),
      one('to an absent account', `${live}/transfer`, { on, into: absentId, body: { serviceAccountId: absentId } }),
      one('absent', `${absent}/transfer`, { on, into: absentId, body: toService }),
    ],
    deleteSync: [...each('', {}, {}), one('with its remote values', `${live}?remove=true`, { on, into })],
    listSyncRuns: each('/run', {}, {}),
    readSyncRun: [
      one('one', `${live}/run/${syncs.run}`, { on, into }),
      one('of another', `${draft}/run/${syncs.run}`, { on, into: absentId }),
      one('absent', `${live}/run/${absentId}`, { on, into: absentId }),
    ],
  }
}
