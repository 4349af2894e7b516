/** Bounds how many mails one address receives, and how many one person causes, whichever way they are caused. */

import type { Context } from '../context.ts'
import { countAttempt } from './attempt-limit.ts'

/** Anybody can make a workspace or ask for a link: nobody gets many mails in a row. */
export async function countMailTo(ctx: Context, email: string): Promise<void> {
  if (!ctx.mail) return
  // With a space, which no email address has: a login of the address "letter:…" is not counted among them.
  await countAttempt(ctx, `letter ${email}`, 'Too many letters to this address: wait before you send another.')
}

/** For links that a person may have mailed to any address. */
export async function countMailFrom(ctx: Context, userId: string): Promise<void> {
  await countAttempt(ctx, `mail from ${userId}`, 'Too many mails were sent for you: wait before you ask for another.')
}
