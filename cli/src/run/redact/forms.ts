/** The byte sequences that stand for a value in the output of a command. */

const minLength = 6

/** Short values, numbers and booleans occur in any output: hiding them would only damage it. */
export const isHidden = (value: string): boolean =>
  value.length >= minLength && !/^([+-]?[\d.,]+|true|false|null|undefined|enabled|disabled)$/i.test(value)

/** As it is, in JSON, in URLs, in base64; for values of several lines, also each line. */
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
  const percent = encodeURIComponent(value.toWellFormed())
  const lower = percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
  const plus = percent.replaceAll('%20', '+')
  const base64 = [0, 1, 2].map((offset) => base64At(Buffer.from(value), offset))
  return [value, jsonOf(value), percent, lower, plus, ...base64, ...base64.map(urlSafe)]
}

const jsonOf = (text: string) => JSON.stringify(text).slice(1, -1)
const urlSafe = (text: string) => text.replaceAll('+', '-').replaceAll('/', '_')

/** The characters that the value alone decides if it follows `offset` other bytes, such as those of `user:`. */
function base64At(bytes: Buffer, offset: number): string {
  const bits = bytes.length * 8
  const first = Math.ceil((offset * 8) / 6)
  const last = Math.floor((offset * 8 + bits) / 6)
  return Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .slice(first, last)
}
