/**
 * How values are spelled in a dotenv file. Resolved values are for other programs: bash (`source`), Node (`--env-file`),
 * npm's dotenv and python-dotenv read them alike if any spelling makes them. A value that one of them misreads never changes
 * the entries around it, and bash executes none. Stored text keeps its references, for an import by this service.
 */
import { readReference } from '../reference/reference.ts'
import { escapeUnprintable } from './entry.ts'

const bare = /^[A-Za-z0-9_./:@%+,=-]*$/

/** Some readers take a backslash at the end for an escaped quote and read on into the next entry. npm's dotenv changes CR. */
const singleHolds = (value: string) => !/['\0\r]|\\$/.test(value)

/** In double quotes, bash expands `$` and backquotes, and each reader knows other escapes. */
const doubleHolds = (value: string) => !/["`\0\r]|\$[\w{([*@#?$!-]|\\(?:[\\"'$`abfnrtv\n]|u[\dA-Fa-f]{4}|$)/.test(value)

/** python-dotenv expands this in any quotes, and decodes this one escape in single quotes. */
const changedByPython = /\$\{[^}:]*(?::-[^}]*)?\}|\\\\/

/** To bash, an assignment to any other name is a command. */
const isVariable = (key: string) => /^[A-Za-z_]\w*$/.test(key)

/** Whether the four readers get the value of a resolved entry. */
export const isReadAlike = (key: string, value: string): boolean =>
  isVariable(key) && (singleHolds(value) ? !changedByPython.test(value) : doubleHolds(value))

/** The text has no references: an import takes `${` in it as text. */
export function spellResolved(value: string): string {
  if (bare.test(value)) return value
  if (singleHolds(value)) return `'${value}'`
  return doubleHolds(value) ? `"${value}"` : escaped(value.replace(/[\\"$`]/g, '\\$&'))
}

/** `\$` begins literal text for an import, so that only references keep a bare `$`. */
export function spellStored(value: string): string {
  if (!value.includes('${')) return spellResolved(value)
  const token = /\$\$\{|\$\{(?=([A-Za-z0-9 _.-]{1,353})\})|\$\{|[\\"$`]/g
  return escaped(
    value.replace(token, (found, name: string | undefined) => {
      if (found === '$${') return '\\${'
      if (found !== '${') return `\\${found}`
      return name !== undefined && readReference(name) ? found : '\\u0024{'
    }),
  )
}

/** A line of its own: the readers that do not know an escape get another value, but no other entry. */
function escaped(text: string): string {
  const written = text
    .replace(/\\\\$/, '\\u005c')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
  return `"${escapeUnprintable(written)}"`
}
