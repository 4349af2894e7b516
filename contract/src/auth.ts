import { type Endpoint, maxPublicBodyBytes } from './endpoint.ts'
import { closed, Email, Id, line, Name, NewEmail, Nothing, Password, Slug, Success, words } from './field.ts'
import { type Static, Type } from './schema.ts'

export const AccessToken = Type.Object({
  accessToken: Type.String(),
  expiresIn: Type.Integer(),
  tokenType: Type.Literal('Bearer'),
})
export type AccessToken = Static<typeof AccessToken>

export const SignedIn = Type.Object({
  ...AccessToken.properties,
  user: Type.Object({ id: Id, email: Email, name: Type.String() }),
})
export type SignedIn = Static<typeof SignedIn>

export const Registration = Type.Object(
  {
    email: NewEmail,
    password: Password,
    name: Name,
    inviteToken: Type.Optional(line(200)),
    setupCode: Type.Optional(line(200)),
    workspace: Type.Optional(Type.Object({ name: Name, slug: Slug }, closed)),
  },
  closed,
)
export type Registration = Static<typeof Registration>

/** No minimum length here: the length rules apply when a password is set, not when it is checked. */
export const Login = Type.Object(
  {
    email: Email,
    password: Type.String({ minLength: 1, maxLength: 256 }),
    code: Type.Optional(line(64)),
  },
  closed,
)
export type Login = Static<typeof Login>

export const PasswordReset = Type.Object({ token: line(200), password: Password }, closed)
export type PasswordReset = Static<typeof PasswordReset>

export const AuthState = Type.Object({
  /** True until the first account exists. */
  needsSetup: Type.Boolean(),
  /** The same: the first account always needs the setup code. Services of before asked some clients only. */
  needsSetupCode: Type.Boolean(),
  signup: words('invite', 'open'),
  passwordLogin: Type.Boolean(),
  providers: Type.Array(Type.Object({ id: Type.String(), name: Type.String() })),
  version: Type.String(),
})
export type AuthState = Static<typeof AuthState>

export const authEndpoints = {
  readAuthState: {
    method: 'GET',
    path: '/v1/auth/state',
    area: 'auth',
    summary: 'How to sign in here, and whether the first account is still missing',
    permission: 'public',
    status: 200,
    response: AuthState,
    errors: [],
  },
  exchangeToken: {
    method: 'POST',
    path: '/v1/auth/exchange',
    area: 'auth',
    summary: 'Exchange an API token for a JWT that is valid for 15 minutes',
    permission: 'auth:exchange',
    body: Nothing,
    status: 200,
    response: AccessToken,
    errors: [403],
  },
  register: {
    method: 'POST',
    path: '/v1/auth/register',
    area: 'auth',
    summary: 'Create an account: the first one, with an invite, or if sign-up is open',
    permission: 'public',
    body: Registration,
    maxBodyBytes: maxPublicBodyBytes,
    status: 201,
    response: SignedIn,
    errors: [403, 409],
  },
  login: {
    method: 'POST',
    path: '/v1/auth/login',
    area: 'auth',
    summary: 'Sign in with email address, password and, if set up, a second-factor code',
    permission: 'public',
    body: Login,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: SignedIn,
    errors: [401],
  },
  resetPassword: {
    method: 'POST',
    path: '/v1/auth/password/reset',
    area: 'auth',
    summary:
      'Set a new password with the token of a link from the operator; ends all sessions, keeps the second factor',
    permission: 'public',
    looksUpToken: true,
    body: PasswordReset,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: Success,
    errors: [404],
  },
  logout: {
    method: 'POST',
    path: '/v1/auth/logout',
    area: 'auth',
    summary: 'End the current session',
    permission: 'auth:logout',
    body: Nothing,
    status: 200,
    response: Success,
    errors: [403],
  },
  logoutCli: {
    method: 'POST',
    path: '/v1/auth/cli/logout',
    area: 'auth',
    summary: 'End the current command-line session',
    permission: 'auth:logout',
    body: Nothing,
    status: 200,
    response: Success,
    errors: [403],
  },
} as const satisfies Record<string, Endpoint>
