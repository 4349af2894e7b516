/** Signs in a device without a browser: the device shows a code, and a signed-in person approves it. */
import { AccessToken } from './auth.ts'
import { type Endpoint, maxPublicBodyBytes } from './endpoint.ts'
import { closed, line, Success, Timestamp, words } from './field.ts'
import { type Static, Type } from './schema.ts'

const ClientId = line(64)

export const NewDeviceCode = Type.Object({ clientId: ClientId }, closed)
export type NewDeviceCode = Static<typeof NewDeviceCode>

export const DeviceCode = Type.Object({
  deviceCode: Type.String(),
  userCode: Type.String(),
  verificationUri: Type.String(),
  verificationUriComplete: Type.String(),
  expiresIn: Type.Integer(),
  interval: Type.Integer(),
})
export type DeviceCode = Static<typeof DeviceCode>

export const DevicePoll = Type.Object({ clientId: ClientId, deviceCode: line(200) }, closed)
export type DevicePoll = Static<typeof DevicePoll>

/** The only error that is not `{ message }`: clients of the device flow parse these codes. */
export const pollErrors = ['authorization_pending', 'slow_down', 'access_denied', 'expired_token'] as const
export const PollRefusal = Type.Object({ error: words(...pollErrors) }, closed)
export type PollRefusal = Static<typeof PollRefusal>

const UserCode = line(40)
export const DeviceAnswer = Type.Object({ userCode: UserCode, approve: Type.Boolean() }, closed)
export type DeviceAnswer = Static<typeof DeviceAnswer>
export const DeviceQuestion = Type.Object({ userCode: UserCode }, closed)
export type DeviceQuestion = Static<typeof DeviceQuestion>

/** Shown to a person before approving: which client asks, and from where. */
export const WaitingDevice = Type.Object({
  clientId: Type.String(),
  ip: Type.String(),
  userAgent: Type.String(),
  createdAt: Timestamp,
  expiresAt: Timestamp,
})
export type WaitingDevice = Static<typeof WaitingDevice>

const path = '/v1/auth/device'

export const deviceEndpoints = {
  createDeviceCode: {
    method: 'POST',
    path: `${path}/code`,
    area: 'auth',
    summary: 'Start a device login: returns a code for the device and one for the user',
    permission: 'public',
    body: NewDeviceCode,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: DeviceCode,
    errors: [],
  },
  pollDevice: {
    method: 'POST',
    path: `${path}/token`,
    area: 'auth',
    summary: 'Poll for approval; once approved, the response is the session',
    permission: 'public',
    body: DevicePoll,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: AccessToken,
    errors: [],
    refusal: PollRefusal,
  },
  readDevice: {
    method: 'POST',
    path: `${path}/lookup`,
    area: 'auth',
    summary: 'Show the device login that waits for approval under a user code',
    permission: 'device:approve',
    body: DeviceQuestion,
    status: 200,
    response: WaitingDevice,
    errors: [403, 404],
  },
  answerDevice: {
    method: 'POST',
    path: `${path}/approve`,
    area: 'auth',
    summary: 'Approve or deny a device login, from a browser session',
    permission: 'device:approve',
    body: DeviceAnswer,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
