import type { Endpoint } from './endpoint.ts'
import { ConfirmingPassword, closed, line, Success } from './field.ts'
import { type Static, Type } from './schema.ts'

/** Shown once, for the authenticator app: as a URI for a QR code, and as text to type. */
export const TotpEnrolment = Type.Object({ secret: Type.String(), otpauthUri: Type.String() })
export type TotpEnrolment = Static<typeof TotpEnrolment>

/** A code from the app, or a recovery code if the endpoint accepts one. */
export const MfaCode = Type.Object({ code: line(64) }, closed)
export type MfaCode = Static<typeof MfaCode>

export const TotpStart = Type.Object({ password: ConfirmingPassword }, closed)
export type TotpStart = Static<typeof TotpStart>
export const TotpRemoval = Type.Object({ code: line(64), password: ConfirmingPassword }, closed)
export type TotpRemoval = Static<typeof TotpRemoval>

/** The only response that ever contains the codes. */
export const RecoveryCodes = Type.Object({ recoveryCodes: Type.Array(Type.String()) })
export type RecoveryCodes = Static<typeof RecoveryCodes>

const path = '/v1/me/mfa/totp'

export const mfaEndpoints = {
  enrolTotp: {
    method: 'POST',
    path,
    area: 'me',
    summary: 'Start setting up an authenticator app, with your password; it takes effect once confirmed',
    permission: 'me:manage',
    body: TotpStart,
    status: 200,
    response: TotpEnrolment,
    errors: [403, 409],
  },
  confirmTotp: {
    method: 'POST',
    path: `${path}/confirm`,
    area: 'me',
    summary: 'Confirm the authenticator app with a code; the ten recovery codes are shown only in this response',
    permission: 'me:manage',
    body: MfaCode,
    status: 200,
    response: RecoveryCodes,
    errors: [403, 409],
  },
  removeTotp: {
    method: 'DELETE',
    path,
    area: 'me',
    summary: 'Remove the authenticator app, with your password and one of its codes or a recovery code',
    permission: 'me:manage',
    body: TotpRemoval,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
} as const satisfies Record<string, Endpoint>
