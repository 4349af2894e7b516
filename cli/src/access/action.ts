/** The actions that access can be explained for. */
import type { ExplainQuery } from '@coffer/sdk'
import { usageError } from '../error.ts'

type Action = ExplainQuery['action']

const shortWords: Readonly<Record<string, Action>> = {
  read: 'secret:read',
  write: 'secret:write',
  share: 'share:write',
}

/** The compiler asks for each action of the service. */
const actions: Readonly<Record<Action, true>> = {
  'secret:read': true,
  'secret:write': true,
  'secret:update': true,
  'environment:read': true,
  'environment:create': true,
  'environment:write': true,
  'project:read': true,
  'project:create': true,
  'project:write': true,
  'team:read': true,
  'team:create': true,
  'team:write': true,
  'share:read': true,
  'share:write': true,
  'sync:read': true,
  'sync:write': true,
  'sync:transfer': true,
  'token:read': true,
  'token:create': true,
  'token:write': true,
  'token:transfer': true,
  'service:read': true,
  'service:write': true,
  'service:token': true,
  'oidc:read': true,
  'oidc:write': true,
  'member:read': true,
  'member:write': true,
  'access:read': true,
  'audit:read': true,
  'policy:read': true,
  'policy:write': true,
  'workspace:read': true,
  'workspace:write': true,
  'workspace:delete': true,
  'workspace:handover': true,
}

const shortActions = Object.keys(shortWords)

const isAction = (word: string): word is Action => Object.hasOwn(actions, word)

export function requireAction(word: string): Action {
  const meant = Object.hasOwn(shortWords, word) ? shortWords[word] : word
  if (meant !== undefined && isAction(meant)) return meant
  throw usageError(`ACTION must be one of: ${[...shortActions, ...Object.keys(actions)].join(', ')}.`)
}
