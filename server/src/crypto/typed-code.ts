/** Codes that people read and type: capitals without vowels, so that none looks like another letter, a digit or a word. */
import { randomInt } from 'node:crypto'

const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const groupLength = 4

/** Groups of four letters, 17 bits each, with dashes between them. */
export function newTypedCode(groups: number): string {
  const group = () => Array.from({ length: groupLength }, () => letters.charAt(randomInt(letters.length))).join('')
  return Array.from({ length: groups }, group).join('-')
}

/** As it was made, however it was typed: in small letters, with spaces or without dashes. */
export function normaliseTypedCode(text: string): string {
  const plain = text.toUpperCase().replace(/[\s-]/g, '')
  return plain.replace(new RegExp(`.{${groupLength}}(?=.)`, 'gs'), '$&-')
}
