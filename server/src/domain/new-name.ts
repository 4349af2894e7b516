/** New names have no characters that hide or reverse text: two different names would look alike. */
import { invalid } from '../failure.ts'

/** Control characters, and all that is never shown: marks of direction among them. */
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u
/** Some emoji are joined by characters that are hidden elsewhere. */
const emoji = /\p{RGI_Emoji}/gv

/** `before` is the name so far: an older one with such characters may be sent back as it is. */
export function requireClearName(name: string | undefined, before?: string, field = 'name'): void {
  if (name === undefined || name === before || !hidden.test(name.replace(emoji, ''))) return
  throw invalid(field, 'must not have invisible characters, or ones that change the direction of the text.')
}
