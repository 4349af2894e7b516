/** `allowNames` of `.coffer.json`. The file comes with the folder, so a name in it counts only after `coffer trust`. */
import type { Context } from '../context.ts'
import { visible } from '../output/table.ts'
import { changeLogins, readLogins } from '../session/login-file.ts'
import type { Settings } from './place.ts'

export function trustedAllowNames(ctx: Context, settings: Settings): readonly string[] {
  const { file } = settings
  const names = file?.content.allowNames ?? []
  const unconfirmed = unconfirmedNames(ctx, settings)
  if (!file || unconfirmed.length === 0) return names
  const listed = visible(unconfirmed.join(', '))
  ctx.out.note(`coffer: ${file.path} allows ${listed}, which nobody has confirmed. try: coffer trust`)
  return names.filter((name) => !unconfirmed.includes(name))
}

/** Confirmed are the names, not the file: one that is added later is asked for again. */
export function unconfirmedNames({ env }: Context, { file }: Settings): readonly string[] {
  const confirmed = file ? (readLogins(env).trustedNames?.[file.path] ?? []) : []
  return (file?.content.allowNames ?? []).filter((name) => !confirmed.includes(name))
}

/** Without names, nothing of the file is confirmed any more. */
export function confirmNames({ env }: Context, path: string, names: readonly string[]): void {
  changeLogins(env, ({ trustedNames: { [path]: _, ...others } = {}, ...rest }) => ({
    ...rest,
    trustedNames: names.length === 0 ? others : { ...others, [path]: names },
  }))
}
