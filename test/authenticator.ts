/** An authenticator app: decodes the typed secret and computes codes. */
import type { RecoveryCodes, TotpEnrolment } from '@coffer/contract/mfa'
import { expect } from 'vitest'
import { hotp, totpStep } from '../server/src/crypto/totp.ts'
import { password, type TestService } from './harness.ts'

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

export function readBase32(text: string): Buffer {
  const bits = [...text].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
}

export type Authenticator = {
  readonly secret: string
  readonly recoveryCodes: readonly string[]
  /** The code now, or so many steps away. */
  code(drift?: number): string
  /** A code not used before: moves the service's clock forward. */
  freshCode(): string
}

const stepMs = 30_000

function authenticator(service: TestService, secret: string, recoveryCodes: readonly string[]): Authenticator {
  const code = (drift = 0) => hotp(readBase32(secret), totpStep(service.app.services.now()) + drift)
  return {
    secret,
    recoveryCodes,
    code,
    freshCode() {
      service.clock.offsetMs += 2 * stepMs
      return code()
    },
  }
}

export async function beginTotp(service: TestService, session: string): Promise<Authenticator> {
  const { body, status, text } = await service.call<TotpEnrolment>('POST', '/v1/me/mfa/totp', {
    token: session,
    body: { password },
  })
  expect(status, text).toBe(200)
  return authenticator(service, body.secret, [])
}

/** Enrols and confirms. */
export async function setUpTotp(service: TestService, session: string): Promise<Authenticator> {
  const { secret, code } = await beginTotp(service, session)
  const answer = await service.call<RecoveryCodes>('POST', '/v1/me/mfa/totp/confirm', {
    token: session,
    body: { code: code() },
  })
  expect(answer.status, answer.text).toBe(200)
  return authenticator(service, secret, answer.body.recoveryCodes)
}
