/**
 * AWS: `aws secretsmanager get-secret-value` and `batch-get-secret-value`, `aws ssm get-parameters-by-path`,
 * `get-parameters` and `get-parameter`. A secret whose text is a JSON object has a secret for each of its fields.
 */
import { cannotImport, type Found, type FoundSecret } from '../entry.ts'
import { isRecord, isText, type Json, type JsonRecord, parseRecord, textOf } from '../json.ts'
import type { Tool } from './tool.ts'
import { segmentsOf } from './vault.ts'

export const aws: Tool = {
  format: 'aws',
  name: 'AWS',
  recognises: (documents) => entriesOf(documents) !== undefined,
  read(documents): Found | undefined {
    const entries = entriesOf(documents)
    if (!entries) return undefined
    const binary = entries.filter((entry) => 'SecretBinary' in entry && !('SecretString' in entry))
    if (binary.length > 0) throw cannotImport('These secrets of AWS are binary, not text', binary.map(nameOf))
    const sealed = entries.filter(isEncrypted)
    if (sealed.length > 0) {
      const hint = 'aws ssm get-parameters-by-path --with-decryption'
      throw cannotImport('These parameters are still encrypted', sealed.map(nameOf), hint)
    }
    return { secrets: entries.flatMap(secretsOf), warnings: documents.flatMap(partsMissing) }
  },
}

type Entry = JsonRecord & { readonly Name: string }

const isSecret = (value: Json | undefined): value is Entry =>
  isRecord(value) && isText(value.Name) && (isText(value.SecretString) || isText(value.SecretBinary))
const isParameter = (value: Json | undefined): value is Entry =>
  isRecord(value) && isText(value.Name) && isText(value.Value) && isText(value.Type)

function entriesOf(documents: readonly Json[]): Entry[] | undefined {
  const entries: (Json | undefined)[] = (documents.flat() as Json[]).flatMap((document) => {
    if (!isRecord(document)) return [document]
    const { Parameters, SecretValues, Parameter } = document
    if (Array.isArray(Parameters)) return Parameters as Json[]
    if (Array.isArray(SecretValues)) return SecretValues as Json[]
    return [isRecord(Parameter) ? Parameter : document]
  })
  const isKnown = (entry: Json | undefined): entry is Entry => isSecret(entry) || isParameter(entry)
  return entries.length > 0 && entries.every(isKnown) ? entries : undefined
}

const nameOf = ({ Name }: Entry): string => Name

function secretsOf(entry: Entry): FoundSecret[] {
  const path = segmentsOf(entry.Name)
  const text = isText(entry.SecretString) ? entry.SecretString : String(entry.Value)
  const fields = isSecret(entry) ? parseRecord(text) : undefined
  if (!fields || Object.keys(fields).length === 0) return [{ path, value: text }]
  const empty = Object.keys(fields).filter((name) => fields[name] === null)
  if (empty.length > 0) {
    const names = empty.map((name) => `${entry.Name}/${name}`)
    throw cannotImport('These fields are null', names)
  }
  return Object.entries(fields).map(([name, value]) => ({ path: [...path, name], value: textOf(value) ?? '' }))
}

/** Without `--with-decryption` the value of a SecureString is a ciphertext of KMS, which begins like this. */
const isEncrypted = ({ Type, Value }: Entry): boolean =>
  Type === 'SecureString' && isText(Value) && /^AQICA[A-Za-z0-9+/=]{80,}$/.test(Value)

function partsMissing(document: Json): string[] {
  if (!isRecord(document)) return []
  const { NextToken, Errors, InvalidParameters } = document
  const failed = Array.isArray(Errors)
    ? (Errors as Json[]).filter(isRecord).map(({ SecretId }) => String(SecretId))
    : []
  const unknown = Array.isArray(InvalidParameters) ? (InvalidParameters as Json[]).filter(isText) : []
  const missing = [...failed, ...unknown]
  return [
    ...(isText(NextToken) ? ['The export is one page of several: it has a NextToken.'] : []),
    ...(missing.length > 0 ? [`AWS has not given these: ${missing.join(', ')}.`] : []),
  ]
}
