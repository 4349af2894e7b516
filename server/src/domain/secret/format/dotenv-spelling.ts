/** How stored values are spelled in a dotenv file: they keep their references, for an import by this service. */
import { spellEscaped, spellResolved } from '@coffer/contract/secret-format'
import { readReference } from '../reference/reference.ts'

/** `\$` begins literal text for an import, so that only references keep a bare `$`. */
export function spellStored(value: string): string {
  if (!value.includes('${')) return spellResolved(value)
  const token = /\$\$\{|\$\{(?=([A-Za-z0-9 _.-]{1,353})\})|\$\{|[\\"$`]/g
  return spellEscaped(
    value.replace(token, (found, name: string | undefined) => {
      if (found === '$${') return '\\${'
      if (found !== '${') return `\\${found}`
      return name !== undefined && readReference(name) ? found : '\\u0024{'
    }),
  )
}
