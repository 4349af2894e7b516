/** Words for answers about access: who, what, where, and by which grant. */
import type { AccessActor, ExplainedAction } from '@coffer/contract/access'
import type { Grant, Scope } from '@coffer/contract/field'
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Place } from './place.ts'

/** Follows "may" and "may not". */
const phrases: Record<ExplainedAction, string> = {
  'workspace:read': 'see the workspace',
  'workspace:write': 'change the settings of the workspace',
  'workspace:delete': 'delete the workspace',
  'workspace:handover': 'transfer the ownership of the workspace',
  'member:read': 'list the members',
  'member:write': 'invite, change and remove members',
  'team:read': 'see teams',
  'team:create': 'create teams',
  'team:write': 'change teams',
  'project:read': 'see projects',
  'project:create': 'create projects',
  'project:write': 'change projects',
  'environment:read': 'see environments',
  'environment:create': 'create environments',
  'environment:write': 'change environments',
  'secret:read': 'read secrets',
  'secret:write': 'write secrets',
  'secret:update': 'write personal values',
  'share:read': 'list shares',
  'share:write': 'share secrets by a link',
  'sync:read': 'see syncs',
  'sync:write': 'set up syncs',
  'sync:transfer': 'give syncs to service accounts',
  'token:read': 'list tokens',
  'token:create': 'create tokens',
  'token:write': 'rotate and revoke tokens',
  'token:transfer': 'give tokens to service accounts',
  'oidc:read': 'list identities',
  'oidc:write': 'change identities',
  'audit:read': 'read the audit log',
  'service:read': 'list service accounts',
  'service:write': 'change service accounts',
  'service:token': 'create tokens of service accounts',
  'policy:read': 'read the policy',
  'policy:write': 'change the policy',
  'access:read': 'see who has access',
}

export const what = (action: ExplainedAction): string => phrases[action]

const kinds = { user: '', token: 'the token ', service: 'the service account ', oidc: 'the identity ' } as const

export const who = ({ type, name }: AccessActor): string => `${kinds[type]}${name}`

/** The smallest part of a place that is named. */
export function where({ team, project, environment }: Place): string {
  if (project && environment) return `${environment.name} of ${project.name}`
  if (project) return `the project ${project.name}`
  return team ? `the team ${team.name}` : 'the workspace'
}

/** More names than this are counted, not listed. */
const maxListed = 5

export function list(names: readonly string[]): string {
  const more = names.length - maxListed
  const shown = more > 0 ? [...names.slice(0, maxListed), `${more} more`] : names
  return shown.length > 1 ? `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}` : (shown[0] ?? 'nothing')
}

/** A scope by names. Of what has been deleted there are none. */
export function describeScope({ teams, projects, environments }: WorkspaceSnapshot, scope: Scope): string {
  if (scope.all) return 'the whole workspace'
  const places: Place[] = []
  for (const id of scope.teams) {
    const team = teams.get(id)
    if (team) places.push({ team })
  }
  for (const id of scope.projects) {
    const project = projects.get(id)
    if (project) places.push({ project })
  }
  for (const id of scope.environments) {
    const environment = environments.get(id)
    const project = projects.get(environment?.projectId ?? '')
    if (environment && project) places.push({ project, environment })
  }
  return list(places.map(where))
}

export const describeGrant = (snapshot: WorkspaceSnapshot, { role, scope }: Grant): string =>
  `${role} for ${describeScope(snapshot, scope)}`

/** Starts with a capital, except for an address or a name, and ends with a full stop. */
export const asSentence = (text: string): string => {
  const start = /^(the|its?|no) /.test(text) ? text.slice(0, 1).toUpperCase() : text.slice(0, 1)
  return `${start}${text.slice(1)}${/[.]"?$/.test(text) ? '' : '.'}`
}
