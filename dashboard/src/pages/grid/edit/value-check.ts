/** Compares a text with the type of its secret. Types are advice: only a value that is too long cannot be saved. */
import type { DataType } from '@coffer/sdk'

export const dataTypes: readonly { readonly type: DataType; readonly label: string }[] = [
  { type: 'text', label: 'Text' },
  { type: 'multiline', label: 'Several lines' },
  { type: 'json', label: 'JSON' },
  { type: 'url', label: 'URL' },
  { type: 'number', label: 'Number' },
  { type: 'boolean', label: 'True or false' },
]

const maxBytes = 64 * 1024
/** No text is longer in UTF-8 than three bytes for each of its units: most need no counting. */
const isTooLong = (text: string) => text.length * 3 > maxBytes && new TextEncoder().encode(text).length > maxBytes

/** A sentence, or undefined if the text fits. It never quotes the text. */
export function checkValue(text: string, dataType: DataType): string | undefined {
  if (isTooLong(text)) return 'This is longer than 64 KiB and cannot be saved.'
  // A reference stands for a text that is not known here.
  if (text === '' || text.includes('${')) return undefined
  switch (dataType) {
    case 'json':
      return isJson(text) ? undefined : 'This is not valid JSON.'
    case 'url':
      return URL.canParse(text) ? undefined : 'This is not a URL.'
    case 'number':
      return text.trim() !== '' && Number.isFinite(Number(text)) ? undefined : 'This is not a number.'
    case 'boolean':
      return /^(true|false|1|0|yes|no|on|off)$/i.test(text) ? undefined : 'This is neither true nor false.'
    default:
      return undefined
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
