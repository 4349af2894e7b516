/** The byte sequences that stand for a value in the output of a command. */

const minLength = 6

/** Short values, numbers and booleans occur in any output: hiding them would only damage it. */
export const isHidden = (value: string): boolean =>
  value.length >= minLength && !/^([+-]?[\d.,]+|true|false|null|undefined|enabled|disabled)$/i.test(value)

/** As it is, in JSON, in URLs, in base64, in hex; for values of several lines, also each line. */
export function formsOf(values: Iterable<string>): Buffer[] {
  const forms = new Set<string>()
  for (const value of values) {
    for (const form of spellings(value)) if (form.length >= minLength) forms.add(form)
    for (const line of linesOf(value)) forms.add(line).add(jsonOf(line))
  }
  return [...forms].map((form) => Buffer.from(form))
}

/** Lines that need to be hidden by themselves. The first and last lines of a key in PEM are no secrets. */
export function linesOf(value: string): string[] {
  const lines = value.split(/\r?\n/)
  return lines.length === 1
    ? []
    : lines.map((line) => line.trim()).filter((line) => isHidden(line) && !/^-----/.test(line))
}

function spellings(value: string): string[] {
  const base64 = [0, 1, 2].map((offset) => base64At(Buffer.from(value), offset))
  return [
    value,
    ...jsonForms(value),
    ...percentForms(value.toWellFormed()),
    ...base64,
    ...base64.map(urlSafe),
    ...wrapped(base64[0] ?? '', [76, 64]),
    ...hexForms(value),
  ]
}

const jsonOf = (text: string) => JSON.stringify(text).slice(1, -1)
const urlSafe = (text: string) => text.replaceAll('+', '-').replaceAll('/', '_')
const unicodeEscape = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`

/** As JavaScript, Go, Python and PHP write it. */
function jsonForms(value: string): string[] {
  const json = jsonOf(value)
  const ascii = json.replace(/[\u007f-\uffff]/g, unicodeEscape)
  return [json, json.replace(/[<>&\u2028\u2029]/g, unicodeEscape), ascii, ascii.replaceAll('/', '\\/')]
}

/** Encoders differ in the signs that they leave as they are, in the case of digits, and in the space. */
function percentForms(text: string): string[] {
  const component = encodeURIComponent(text)
  const strict = component.replace(/[!'()*]/g, percentOf)
  const form = new URLSearchParams([['', text]]).toString().slice(1)
  const password = Object.assign(new URL('http://host'), { password: text }).password
  const codes = [component, strict, strict.replaceAll('%2F', '/'), strict.replaceAll('~', '%7E'), form, password]
  const either = codes.flatMap((code) => [code, code.replace(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase())])
  return either.flatMap((code) => [code, code.replaceAll('%20', '+')])
}

const percentOf = (letter: string) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`

/** Lines of this many characters, such as those of `base64` and of `openssl base64`. */
const wrapped = (text: string, widths: readonly number[]): string[] =>
  widths.flatMap((width) => (text.length <= width ? [] : (text.match(new RegExp(`.{1,${width}}`, 'g')) ?? [])))

/** In the lines of `xxd -p` too. The end of a value is left out if it has so few digits that other text has them. */
function hexForms(value: string): string[] {
  const hex = Buffer.from(value).toString('hex')
  const forms = [hex, ...wrapped(hex, [60]).filter(({ length }) => length >= 2 * minLength)]
  return forms.flatMap((form) => [form, form.toUpperCase()])
}

/** The characters that the value alone decides if it follows `offset` other bytes, such as those of `user:`. */
function base64At(bytes: Buffer, offset: number): string {
  const bits = bytes.length * 8
  const first = Math.ceil((offset * 8) / 6)
  const last = Math.floor((offset * 8 + bits) / 6)
  return Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .slice(first, last)
}
