/** What a removal would end, for the question before it. */
import type { Removal } from '@coffer/sdk'
import { visible } from '../output/table.ts'

export function describeRemoval({ tokens, syncs, shares, personalValues }: Removal): string[] {
  const lines: string[] = []
  const list = (names: readonly { readonly name: string }[]) => visible(names.map(({ name }) => name).join(', '))
  if (tokens.length > 0) lines.push(`These tokens end: ${list(tokens)}`)
  if (syncs.length > 0) lines.push(`These syncs push no more: ${list(syncs)}`)
  if (shares > 0) lines.push(`${count(shares, 'share')} will be revoked.`)
  if (personalValues > 0) lines.push(`${count(personalValues, 'personal value')} will be deleted.`)
  if (tokens.length + syncs.length > 0) {
    lines.push('Tokens and syncs can be given to another service account first: coffer token transfer.')
  }
  return lines
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? '' : 's'}`
