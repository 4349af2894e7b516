/**
 * Codes that people read and type: capital consonants, so that none is mistaken for another letter, a digit or a word.
 */
import { randomInt } from 'node:crypto'

const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const groupLength = 4

/** Groups of four letters (17 bits each), joined by dashes. */
export function newTypedCode(groups: number): string {
  const group = () => Array.from({ length: groupLength }, () => letters.charAt(randomInt(letters.length))).join('')
  return Array.from({ length: groups }, group).join('-')
}

/** Restores the original form of a code typed in lower case, with spaces or without dashes. */
export function normaliseTypedCode(text: string): string {
  const plain = text.toUpperCase().replace(/[\s-]/g, '')
  return plain.replace(new RegExp(`.{${groupLength}}(?=.)`, 'gs'), '$&-')
}
