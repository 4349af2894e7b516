/** Limits guessing: ten failures in ten minutes. Every attempt is counted before it is checked. */
import { Failure } from '../../failure.ts'
import type { Context } from '../context.ts'
import { minuteMs } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'

export const maxFailures = 10
export const backOffMs = 10 * minuteMs

export type Attempt = { readonly failures: number; readonly windowStartedAt: number }

export function tooManyFailures(ctx: Context, attempt: Attempt, message: string): Failure {
  const retryAfterSeconds = Math.max(1, Math.ceil((attempt.windowStartedAt + backOffMs - ctx.now()) / 1000))
  return new Failure('rateLimited', message, { retryAfterSeconds })
}

/** Throws after too many attempts. Undo the count of an attempt that was not a guess with `forgiveAttempt`. */
export async function countAttempt(ctx: Context, subject: string, message: string): Promise<void> {
  const attempt = await inQuietTransaction(ctx, `attempt:${subject}`, (store) =>
    store.loginAttempts.count(subject, ctx.now(), backOffMs),
  )
  if (attempt.failures > maxFailures) throw tooManyFailures(ctx, attempt, message)
}

/** Call after a success, which resets the count. */
export async function forgetAttempts(ctx: Context, subject: string): Promise<void> {
  await inQuietTransaction(ctx, `attempt:${subject}`, (store) => store.loginAttempts.forget(subject))
}

export async function forgiveAttempt(ctx: Context, ...subjects: string[]): Promise<void> {
  await inQuietTransaction(ctx, `attempt:${subjects[0]}`, async (store) => {
    for (const subject of subjects) store.loginAttempts.uncount(subject)
  })
}
