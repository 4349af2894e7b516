/** Who acts: a person, a machine or the service itself, and the credential that limits their rights. */
import type { Permission } from '@coffer/contract/field'
import type { ReadyIdentity, ReadyToken } from './ready-token.ts'

/** The credential of a request, with the fields that its rights depend on. */
export type Credential =
  | { readonly type: 'none' }
  | {
      readonly type: 'session' | 'cli'
      readonly sessionId: string
      /** The second factor that the session was opened with; null if it was opened with one factor. */
      readonly factorId: string | null
      readonly expiresAt: number
      /** Generation of the session cache at the look-up; if it differs now, the session must be checked again. */
      readonly generation: number
    }
  | {
      readonly type: 'static' | 'cli-token' | 'jwt'
      readonly token: ReadyToken
      /** Generation of the token value that was presented: during a grace period this can be the previous value. */
      readonly generation: number
      readonly expiresAt: number | null
    }
  | { readonly type: 'oidc'; readonly identity: ReadyIdentity; readonly expiresAt: number }

export type Actor = {
  readonly type: 'anonymous' | 'user' | 'token' | 'oidc' | 'operator' | 'sync'
  readonly id: string
  readonly name: string
  /** The user or service account whose grants limit the rights of this actor; empty if there is none. */
  readonly userId: string
  /** Whether the email address of the person is confirmed; undefined unless a person or their token acts. */
  readonly emailVerified?: boolean | undefined
  /** The second factor of the person's account, or null; undefined likewise. */
  readonly secondFactorId?: string | null | undefined
  readonly credential: Credential
}

export const anonymous: Actor = { type: 'anonymous', id: '', name: '', userId: '', credential: { type: 'none' } }

/** False for machines: identities, and tokens of service accounts. */
export function isPerson({ userId, credential }: Actor): boolean {
  return userId !== '' && !('token' in credential && credential.token.serviceAccountId !== null)
}

/** The token or identity record that limits a machine to one workspace, permission and scope; undefined for people. */
export function grantOf(credential: Credential): ReadyToken | ReadyIdentity | undefined {
  if ('token' in credential) return credential.token
  return 'identity' in credential ? credential.identity : undefined
}

/** JWTs of a token inherit its mark, because the record of the token is their credential too. */
export const mayAdminister = (credential: Credential): boolean =>
  'sessionId' in credential || ('token' in credential && credential.token.mayAdminister)

export function credentialPermission(credential: Credential): Permission {
  return grantOf(credential)?.permission ?? 'read-write'
}
