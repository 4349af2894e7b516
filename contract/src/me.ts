import type { Endpoint } from './endpoint.ts'
import { Id, MaybeTimestamp, nullable, Permission, Scope, Timestamp, words } from './field.ts'
import { type Static, Type } from './schema.ts'

export const Preferences = Type.Object({
  theme: words('system', 'light', 'dark'),
  defaultWorkspace: nullable(Id),
  maskValues: Type.Boolean(),
  emailNotifications: Type.Boolean(),
})
export type Preferences = Static<typeof Preferences>

export const Me = Type.Object({
  id: Id,
  email: Type.String(),
  name: Type.String(),
  createdAt: Timestamp,
  mfa: Type.Boolean(),
  preferences: Preferences,
  credential: Type.Object({
    type: words('session', 'cli', 'static', 'jwt', 'oidc'),
    permission: Permission,
    scope: Scope,
    workspaceId: nullable(Id),
    expiresAt: MaybeTimestamp,
  }),
})
export type Me = Static<typeof Me>

export const meEndpoints = {
  readMe: {
    method: 'GET',
    path: '/v1/me',
    area: 'me',
    summary: 'Who the credential stands for, and what it may do',
    permission: 'me:read',
    status: 200,
    response: Me,
    errors: [],
  },
} as const satisfies Record<string, Endpoint>
