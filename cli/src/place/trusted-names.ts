/** `allowNames` of `.coffer.json`. The file comes with the folder, so it counts only after `coffer trust`. */
import type { Context } from '../context.ts'
import type { Settings } from './place.ts'
import type { FoundFile } from './project-file.ts'

export function trustedAllowNames(ctx: Context, { file }: Settings): readonly string[] {
  const names = file?.content.allowNames ?? []
  if (!file || names.length === 0 || isTrustedFile(ctx, file)) return names
  ctx.out.note(`coffer: allowNames of ${file.path} does not count: nobody has confirmed the file. try: coffer trust`)
  return []
}

/** No file can be confirmed yet. */
const isTrustedFile = (_: Context, __: FoundFile): boolean => false
