/** Limits the mails that one address receives, and that one person triggers, over all kinds of mail. */

import type { Context } from '../context.ts'
import { countAttempt } from './attempt-limit.ts'

/** Anyone can create a workspace and invite an address, or request a link: no address gets many mails in a row. */
export async function countMailTo(ctx: Context, email: string): Promise<void> {
  if (!ctx.mail) return
  // Failed logins are counted by the bare address. An email address has no space, so this key cannot collide with one.
  await countAttempt(ctx, `letter ${email}`, 'Too many mails to this address: wait before you send another.')
}

/** For links that a person can have mailed to any address. */
export async function countMailFrom(ctx: Context, userId: string): Promise<void> {
  await countAttempt(ctx, `mail from ${userId}`, 'You have requested too many mails: wait before you request another.')
}
