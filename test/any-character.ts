/** Every character of Unicode, halves of surrogate pairs aside. */
import fc from 'fast-check'

const firstSurrogate = 0xd800
const surrogates = 0x800
const lastCharacter = 0x10ffff

const numberOf = (character: unknown) => {
  const point = typeof character === 'string' ? character.codePointAt(0) : undefined
  if (point === undefined || String.fromCodePoint(point) !== character) throw new Error('not one character')
  return point < firstSurrogate ? point : point - surrogates
}

/** The same as the unit `binary` of fast-check, whose table of all of them takes a second in each process. */
export const anyCharacter = fc
  .integer({ min: 0, max: lastCharacter - surrogates })
  .map((number) => String.fromCodePoint(number < firstSurrogate ? number : number + surrogates), numberOf)
