/** What the store remembers about the custody of its master key. It holds no key and no share. */
import type { SourceKind } from './read-source.ts'
import type { ShareSet } from './share.ts'

export type Custody = {
  readonly kind: SourceKind
  readonly movedAt: number
  /** Of a key that is split. */
  readonly split?: ShareSet
}

/** As it is stored. */
export const custodyText = (custody: Custody): string => JSON.stringify(custody)

/** Only `custodyText` writes such a record. */
export const readCustody = (text: string): Custody => JSON.parse(text) as Custody

const names: Record<SourceKind, string> = {
  value: 'a value in the settings',
  file: 'a file',
  command: 'a command',
  'aws-kms': 'AWS KMS',
  'google-kms': 'Google Cloud KMS',
  'azure-key-vault': 'Azure Key Vault',
  transit: 'the transit engine',
  shares: 'shares',
}

export const custodyName = (kind: SourceKind): string => names[kind]

/** A value, a file and a command may hold the same key, so that one replaces another without a move. */
export const isSameCustody = (one: SourceKind, other: SourceKind): boolean => formOf(one) === formOf(other)

const formOf = (kind: SourceKind) => (kind === 'value' || kind === 'command' ? 'file' : kind)
