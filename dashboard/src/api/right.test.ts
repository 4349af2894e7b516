/** What pages offer follows the grants: the highest role among those that reach a place, and no other. */
import type { Grant, Role, Scope } from '@coffer/sdk'
import { describe, expect, test } from 'vitest'
import { holdsRole, holdsRoleWithin, type Place, projectRightsIn, reachOf, rightsIn } from './right.ts'

const scope = (part: Partial<Scope>): Scope => ({ all: false, teams: [], projects: [], environments: [], ...part })
const grant = (role: Role, part: Partial<Scope>): Grant => ({ role, scope: scope(part) })

/** A team with two projects; the first has two environments. */
const shop = { id: 'shop', teamId: 'web', environments: [{ id: 'staging' }, { id: 'production' }] }
const blog = { id: 'blog', teamId: 'web', environments: [{ id: 'blog-staging' }] }
const staging: Place = { teamId: 'web', projectId: 'shop', environmentId: 'staging' }

const roles = ['member', 'developer', 'admin'] as const
/** From narrow to wide: each part lies within the next. */
const parts = [
  scope({ environments: ['staging'] }),
  scope({ projects: ['shop'] }),
  scope({ teams: ['web'] }),
  scope({ all: true }),
]
const places: readonly Place[] = [staging, { teamId: 'web', projectId: 'shop' }, { teamId: 'web' }, {}]

describe('one grant', () => {
  const cases = roles.flatMap((role) => parts.map((_, part) => ({ role, part })))

  test.each(cases)('$role of part $part has that role, and lower ones, there and in what lies within', (one) => {
    const holder = { grants: [{ role: one.role, scope: parts[one.part] ?? scope({}) }] }
    for (const [rank, role] of roles.entries()) {
      for (const [size, place] of places.entries()) {
        const isHeld = rank <= roles.indexOf(one.role) && size <= one.part
        expect(holdsRole(holder, role, place), `${role} of place ${size}`).toBe(isHeld)
      }
    }
  })
})

test('every pair of grants gives the higher role at each place, in either order', () => {
  const singles = roles.flatMap((role) => parts.map((part) => ({ role, scope: part })))
  for (const one of singles) {
    for (const other of singles) {
      for (const role of roles) {
        for (const place of places) {
          const alone = [one, other].some((grant) => holdsRole({ grants: [grant] }, role, place))
          expect(holdsRole({ grants: [one, other] }, role, place)).toBe(alone)
          expect(holdsRole({ grants: [other, one] }, role, place)).toBe(alone)
        }
      }
    }
  }
})

test('a developer in staging who reads production writes in staging alone', () => {
  const grants = [grant('developer', { environments: ['staging'] }), grant('member', { environments: ['production'] })]
  const rights = projectRightsIn({ grants }, shop)
  expect([rights.canWriteIn('staging'), rights.canWriteIn('production')]).toEqual([true, false])
  expect(rights).toMatchObject({ canWrite: true, canAdminister: false })
  expect(rights).toMatchObject({ readsWhole: false, writesWhole: false, administersWhole: false })
})

test('whoever writes in a part of a project and reads the rest renames nothing', () => {
  const grants = [grant('member', { all: true }), grant('admin', { environments: ['staging'] })]
  const rights = projectRightsIn({ grants }, shop)
  expect([rights.administers('staging'), rights.administers('production')]).toEqual([true, false])
  expect(rights).toMatchObject({ canWrite: true, canAdminister: true, readsWhole: true })
  expect(rights).toMatchObject({ writesWhole: false, administersWhole: false })
  expect(projectRightsIn({ grants }, blog)).toMatchObject({ canWrite: false, canAdminister: false, readsWhole: true })
})

test('grants for all environments of a project are not the project, which has later ones too', () => {
  const grants = [grant('admin', { environments: ['staging', 'production'] })]
  expect(projectRightsIn({ grants }, shop)).toMatchObject({ canAdminister: true, administersWhole: false })
})

test('the workspace is managed by an admin of everything, and not by a sum of parts', () => {
  const workspace = (...grants: readonly Grant[]) =>
    rightsIn({
      ...{ id: 'id', name: 'Main', slug: 'main', createdAt: '', isOwner: false, grants: [...grants] },
      ...(grants[0] ?? grant('member', {})),
    })
  const parted = workspace(grant('developer', { all: true }), grant('admin', { teams: ['web'] }))
  expect(parted).toMatchObject({ canManageWorkspace: false, canAdminister: true, canWrite: true })
  const late = workspace(grant('member', { teams: ['web'] }), grant('admin', { all: true }))
  expect(late).toMatchObject({ canManageWorkspace: true, canAdminister: true, canWrite: true })
  const reader = workspace(grant('member', { all: true }), grant('member', { teams: ['web'] }))
  expect(reader).toMatchObject({ canManageWorkspace: false, canAdminister: false, canWrite: false })
})

test('the reach in a role is the sum of the scopes that come with it', () => {
  const grants = [
    grant('member', { projects: ['blog'] }),
    grant('developer', { environments: ['staging'] }),
    grant('admin', { environments: ['staging'], projects: ['blog'] }),
  ]
  expect(reachOf({ grants })).toEqual(scope({ projects: ['blog'], environments: ['staging'] }))
  expect(reachOf({ grants: grants.slice(0, 2) }, 'developer')).toEqual(scope({ environments: ['staging'] }))
  expect(reachOf({ grants: [...grants, grant('member', { all: true })] }, 'developer').all).toBe(false)
})

test('a role within a scope is found at any place that both reach', () => {
  const project = (id: string, environments: readonly string[]) => ({
    ...{ id, name: id, slug: id, secrets: 0, environments: environments.length, createdAt: '', updatedAt: '' },
    environmentList: environments.map((name) => ({ id: name, name })),
  })
  const teams = [{ id: 'web', name: 'Web', projects: [project('shop', ['staging', 'production'])] }]
  const grants = [grant('developer', { environments: ['staging'] }), grant('member', { projects: ['shop'] })]
  const isWriter = (part: Partial<Scope>) => holdsRoleWithin({ grants }, 'developer', scope(part), teams)
  expect([isWriter({ environments: ['staging'] }), isWriter({ projects: ['shop'] })]).toEqual([true, true])
  expect([isWriter({ environments: ['production'] }), isWriter({ teams: ['other'] })]).toEqual([false, false])
  const everywhere = { grants: [grant('developer', { all: true })] }
  expect(holdsRoleWithin(everywhere, 'developer', scope({ all: true }), [])).toBe(true)
})
