/** Proof that the person is there, for what a stolen session must not do: a hidden question on a terminal. */
import type { Confirmation } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { askHidden } from '../prompt.ts'

/** Codes of an authenticator app have six digits, recovery codes groups of letters; a password has 12 characters or more. */
const code = /^(\d{3} ?\d{3}|[A-Z]{4}(-[A-Z]{4}){2})$/i

export async function askConfirmation(ctx: Context): Promise<Confirmation> {
  const message = 'Your password, or a code of your authenticator app'
  const hint = 'run it on a terminal, or use the dashboard'
  const answer = await askHidden(ctx, { message, hint })
  return code.test(answer.trim()) ? { code: answer.trim() } : { password: answer }
}
