/** Requests to every endpoint about service accounts for one tenant, and transfers of tokens to them. */
import type { serviceAccountEndpoints } from '@coffer/contract/service-account'
import { type Ask, absentId, one } from './ask.ts'
import type { World } from './world.ts'

export function serviceAsks(world: World): Record<keyof typeof serviceAccountEndpoints, readonly Ask[]> {
  const list = `/v1/workspace/${world.slug}/service-account`
  const account = `${list}/${world.service.id}`
  const absent = `${list}/${absentId}`
  const grants = [
    { role: 'developer', scope: { environments: [world.environments.right] } },
    { role: 'member', scope: { projects: [world.projects.right] } },
  ]
  const newToken = (permission: string, scope: object = { all: true }) => ({
    body: { name: 'fresh', expiresIn: '24h', permission, scope },
  })
  return {
    listServiceAccounts: [one('list', list)],
    createServiceAccount: [
      one('for everything', list, { body: { name: 'fresh', grants: [{ role: 'admin', scope: { all: true } }] } }),
      one('with two grants', list, { body: { name: 'fresh', grants } }),
      one('for an absent project', list, {
        body: { name: 'fresh', grants: [{ role: 'member', scope: { projects: [absentId] } }] },
        status: 400,
      }),
      one('with a name in use', list, { body: { name: 'robot', grants }, status: 409 }),
    ],
    updateServiceAccount: [
      one('rename', account, { body: { name: 'renamed' } }),
      one('other grants', account, { body: { grants } }),
      one('absent', absent, { body: { name: 'renamed' }, into: absentId }),
    ],
    removeServiceAccount: [
      one('remove', account),
      one('dry run', `${account}?dryRun=true`, { isQuestion: true }),
      one('absent', absent, { into: absentId }),
    ],
    createServiceToken: [
      one('read', `${account}/tokens`, newToken('read')),
      one('read-write', `${account}/tokens`, newToken('read-write')),
      one('for one environment', `${account}/tokens`, newToken('read', { environments: [world.environments.right] })),
      one('for an empty scope', `${account}/tokens`, { ...newToken('read', {}), status: 400 }),
      one('absent', `${absent}/tokens`, { ...newToken('read'), into: absentId }),
    ],
  }
}

export function transferAsks({ slug, service }: World): readonly Ask[] {
  const transfer = (id: string) => `/v1/workspace/${slug}/tokens/${id}/transfer`
  const body = { serviceAccountId: service.id }
  return [
    one('of a person', transfer(service.tokens.persons), { body }),
    one('already there', transfer(service.tokens.own), { body, status: 409 }),
    one('to an absent account', transfer(service.tokens.persons), {
      body: { serviceAccountId: absentId },
      into: absentId,
    }),
    one('absent', transfer(absentId), { body, into: absentId }),
  ]
}
