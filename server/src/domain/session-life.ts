/** How long a session lives. */
import { dayMs, hourMs } from './time.ts'

/** Without use. */
export const sessionIdleMs = { browser: 12 * hourMs, cli: 8 * hourMs } as const
export const sessionMaxMs = 30 * dayMs
