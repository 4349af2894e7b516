/** How often anything may be guessed in vain: ten times in ten minutes, counted before anybody looks at the guess. */
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

/** Throws where there were too many; one that was no guess is forgiven with `forgiveAttempt`. */
export async function countAttempt(ctx: Context, subject: string, message: string): Promise<void> {
  const attempt = await inQuietTransaction(ctx, `attempt:${subject}`, (store) =>
    store.loginAttempts.count(subject, ctx.now(), backOffMs),
  )
  if (attempt.failures > maxFailures) throw tooManyFailures(ctx, attempt, message)
}

/** After a success: the next failure is the first one again. */
export async function forgetAttempts(ctx: Context, subject: string): Promise<void> {
  await inQuietTransaction(ctx, `attempt:${subject}`, (store) => store.loginAttempts.forget(subject))
}

export async function forgiveAttempt(ctx: Context, ...subjects: string[]): Promise<void> {
  await inQuietTransaction(ctx, `attempt:${subjects[0]}`, async (store) => {
    for (const subject of subjects) await store.loginAttempts.uncount(subject)
  })
}
