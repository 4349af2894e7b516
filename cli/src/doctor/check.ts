/** One line of `coffer doctor`. */

export type Check = {
  readonly check: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly message: string
  /** A command or an action that helps. */
  readonly try?: string
}

export const ok = (check: string, message: string): Check => ({ check, state: 'ok', message })
export const warn = (check: string, message: string, hint?: string): Check => ({
  check,
  state: 'warn',
  message,
  ...(hint !== undefined && { try: hint }),
})
export const fail = (check: string, message: string, hint?: string): Check => ({
  ...warn(check, message, hint),
  state: 'fail',
})
