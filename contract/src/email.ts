import type { Endpoint } from './endpoint.ts'
import { ConfirmingPassword, closed, line, NewEmail, Success } from './field.ts'
import { type Static, Type } from './schema.ts'

export const EmailToken = Type.Object({ token: line(200) }, closed)
export type EmailToken = Static<typeof EmailToken>
export const EmailChange = Type.Object({ email: NewEmail, password: ConfirmingPassword }, closed)
export type EmailChange = Static<typeof EmailChange>

const path = '/v1/me/email'

export const emailEndpoints = {
  verifyEmail: {
    method: 'POST',
    path: `${path}/verify`,
    area: 'me',
    summary: 'Send yourself a mail with a link that confirms your address',
    permission: 'me:manage',
    status: 200,
    response: Success,
    errors: [403, 409],
  },
  confirmEmail: {
    method: 'POST',
    path: `${path}/confirm`,
    area: 'me',
    summary: 'Confirm an address with the token from the mailed link; a new address replaces the old one',
    permission: 'me:manage',
    body: EmailToken,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
  changeEmail: {
    method: 'PUT',
    path,
    area: 'me',
    summary: 'Request a change of your address, with your password; it takes effect once the new address is confirmed',
    permission: 'me:manage',
    body: EmailChange,
    status: 200,
    response: Success,
    errors: [403, 409],
  },
} as const satisfies Record<string, Endpoint>
