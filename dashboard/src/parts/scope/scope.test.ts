/** Scopes: ticks in the tree give exactly the ids that the service is asked to grant. */
import type { Scope, TeamGroup } from '@coffer/sdk'
import { expect, test } from 'vitest'
import { everything, grantableTree, nothing, reachedBy, reachedTeams, scopeInWords, ticksOf, toggle } from './scope.ts'

const project = (name: string, environments: readonly string[]) => ({
  id: name,
  name,
  slug: name,
  secrets: 0,
  environments: environments.length,
  environmentList: environments.map((environment) => ({ id: `${name}-${environment}`, name: environment })),
  createdAt: '',
  updatedAt: '',
})

const teams: TeamGroup[] = [
  { id: 'web', name: 'Web', projects: [project('shop', ['staging', 'production']), project('blog', ['staging'])] },
  { id: 'core', name: 'Core', projects: [project('billing', ['production'])] },
]
const tree = grantableTree(teams, everything)
const scope = (parts: Partial<Scope>): Scope => ({ ...nothing, ...parts })

test('a tick on a whole replaces the ticks of its parts', () => {
  const part = toggle(tree, nothing, 'shop-staging')
  expect(part).toEqual(scope({ environments: ['shop-staging'] }))
  expect(toggle(tree, part, 'web')).toEqual(scope({ teams: ['web'] }))
})

test('without one of its parts, a whole becomes the others', () => {
  const whole = scope({ teams: ['web', 'core'] })
  expect(toggle(tree, whole, 'shop-production')).toEqual(
    scope({ teams: ['core'], projects: ['blog'], environments: ['shop-staging'] }),
  )
  expect(toggle(tree, whole, 'web')).toEqual(scope({ teams: ['core'] }))
})

test('all parts are not the whole, which also has what is added later', () => {
  const parts = toggle(tree, toggle(tree, nothing, 'shop'), 'blog')
  expect(parts).toEqual(scope({ projects: ['shop', 'blog'] }))
  expect(ticksOf(tree, parts).get('web')).toBe('part')
  expect(ticksOf(tree, parts).get('shop-staging')).toBe('on')
  expect(ticksOf(tree, parts).get('core')).toBe('off')
})

test('a container that is not one’s own stands for the parts that are', () => {
  const own = scope({ environments: ['shop-staging', 'shop-production'] })
  const reached: TeamGroup[] = [{ id: 'web', name: 'Web', projects: [project('shop', ['staging', 'production'])] }]
  const narrow = grantableTree(reached, own)
  const granted = toggle(narrow, nothing, 'web')
  expect(granted).toEqual(own)
  expect(ticksOf(narrow, granted).get('web')).toBe('on')
  expect(toggle(narrow, granted, 'shop')).toEqual(nothing)
  expect(toggle(narrow, granted, 'shop-staging')).toEqual(scope({ environments: ['shop-production'] }))
})

test.each<[string, Scope]>([
  ['everything', everything],
  ['team Web', scope({ teams: ['web'] })],
  ['shop', scope({ projects: ['shop'] })],
  ['shop / staging', scope({ environments: ['shop-staging'] })],
  ['shop / staging, production', scope({ environments: ['shop-staging', 'shop-production'] })],
  ['2 projects', scope({ projects: ['shop', 'billing'] })],
  ['1 project, 1 environment', scope({ projects: ['blog'], environments: ['shop-staging'] })],
  ['1 team, 1 environment', scope({ teams: ['core'], environments: ['shop-staging'] })],
  ['2 environments', scope({ environments: ['shop-staging', 'blog-staging'] })],
  ['nothing any more', scope({ projects: ['deleted'] })],
])('in words: %s', (words, given) => {
  expect(scopeInWords(given, teams)).toBe(words)
})

test('a reach leaves of the teams only what is in it', () => {
  const names = (scope: Scope) =>
    reachedTeams(scope, teams).map((team) => [
      team.name,
      team.projects.map(({ name, environmentList }) => [name, ...environmentList.map((one) => one.name)]),
    ])
  expect(names(everything)).toHaveLength(2)
  expect(names(scope({ environments: ['shop-staging'], projects: ['billing'] }))).toEqual([
    ['Web', [['shop', 'staging']]],
    ['Core', [['billing', 'production']]],
  ])
  expect(names(nothing)).toEqual([])
})

test('the reach of a scope names projects and environments', () => {
  const reached = reachedBy(scope({ teams: ['core'], environments: ['shop-staging'] }), teams)
  expect(reached.map(({ project: { name }, environments }) => [name, environments])).toEqual([
    ['shop', ['staging']],
    ['billing', ['production']],
  ])
  expect(reachedBy(everything, teams)).toHaveLength(3)
})
