import type { Endpoint } from './endpoint.ts'
import {
  closed,
  Id,
  MaybeTimestamp,
  Name,
  nullable,
  Password,
  Permission,
  Scope,
  Success,
  Timestamp,
  words,
} from './field.ts'
import { type Static, Type } from './schema.ts'

export const Preferences = Type.Object({
  theme: words('system', 'light', 'dark'),
  defaultWorkspace: nullable(Id),
  maskValues: Type.Boolean(),
  emailNotifications: Type.Boolean(),
})
export type Preferences = Static<typeof Preferences>

const { theme, defaultWorkspace, maskValues, emailNotifications } = Preferences.properties
/** Omitted fields stay unchanged. */
export const PreferencesChange = Type.Object(
  {
    theme: Type.Optional(theme),
    defaultWorkspace: Type.Optional(defaultWorkspace),
    maskValues: Type.Optional(maskValues),
    emailNotifications: Type.Optional(emailNotifications),
  },
  { ...closed, minProperties: 1 },
)
export type PreferencesChange = Static<typeof PreferencesChange>

export const Me = Type.Object({
  id: Id,
  email: Type.String(),
  emailVerified: Type.Boolean(),
  name: Type.String(),
  createdAt: Timestamp,
  mfa: Type.Boolean(),
  preferences: Preferences,
  credential: Type.Object({
    type: words('session', 'cli', 'static', 'jwt', 'oidc'),
    permission: Permission,
    scope: Scope,
    workspaceId: nullable(Id),
    /** The mark of a token, which its JWTs inherit; false for every other credential. */
    mayAdminister: Type.Boolean(),
    expiresAt: MaybeTimestamp,
  }),
})
export type Me = Static<typeof Me>

export const MeChange = Type.Object(
  { name: Type.Optional(Name), preferences: Type.Optional(PreferencesChange) },
  { ...closed, minProperties: 1 },
)
export type MeChange = Static<typeof MeChange>

/**
 * No minimum length for the current password: the length rules apply when a password is set, not when it is checked.
 */
export const PasswordChange = Type.Object(
  { currentPassword: Type.String({ minLength: 1, maxLength: 256 }), newPassword: Password },
  closed,
)
export type PasswordChange = Static<typeof PasswordChange>

export const Session = Type.Object({
  id: Id,
  type: words('browser', 'cli'),
  ip: Type.String(),
  userAgent: Type.String(),
  createdAt: Timestamp,
  lastSeenAt: Timestamp,
  expiresAt: Timestamp,
  current: Type.Boolean(),
})
export type Session = Static<typeof Session>
export const SessionPath = Type.Object({ id: Id })
export type SessionPath = Static<typeof SessionPath>

export const meEndpoints = {
  readMe: {
    method: 'GET',
    path: '/v1/me',
    area: 'me',
    summary: 'Show who the credential belongs to and what it may do',
    permission: 'me:read',
    status: 200,
    response: Me,
    errors: [],
  },
  updateMe: {
    method: 'PUT',
    path: '/v1/me',
    area: 'me',
    summary: 'Change your name or preferences',
    permission: 'me:manage',
    body: MeChange,
    status: 200,
    response: Success,
    errors: [403],
  },
  readPreferences: {
    method: 'GET',
    path: '/v1/me/preferences',
    area: 'me',
    summary: 'Read your preferences',
    permission: 'me:manage',
    status: 200,
    response: Preferences,
    errors: [403],
  },
  updatePreferences: {
    method: 'PUT',
    path: '/v1/me/preferences',
    area: 'me',
    summary: 'Change some or all of your preferences',
    permission: 'me:manage',
    body: PreferencesChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Preferences.properties }),
    errors: [403],
  },
  changePassword: {
    method: 'PUT',
    path: '/v1/me/password',
    area: 'me',
    summary: 'Change your password; all other sessions end',
    permission: 'me:manage',
    body: PasswordChange,
    status: 200,
    response: Success,
    errors: [403, 409],
  },
  listSessions: {
    method: 'GET',
    path: '/v1/me/session',
    area: 'me',
    summary: 'List your sessions, newest first',
    permission: 'me:manage',
    status: 200,
    response: Type.Array(Session),
    errors: [403],
  },
  revokeSession: {
    method: 'DELETE',
    path: '/v1/me/session/:id',
    area: 'me',
    summary: 'End one of your sessions',
    permission: 'me:manage',
    params: SessionPath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
  revokeOtherSessions: {
    method: 'DELETE',
    path: '/v1/me/session',
    area: 'me',
    summary: 'End all your sessions except the current one',
    permission: 'me:manage',
    status: 200,
    response: Success,
    errors: [403],
  },
} as const satisfies Record<string, Endpoint>
