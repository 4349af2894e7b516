/**
 * HashiCorp Vault: `vault kv get -format=json` of KV version 1 and 2, or an object that holds paths, each with such an
 * answer or with the fields themselves.
 */
import { cannotImport, type FoundSecret } from '../entry.ts'
import { isRecord, type Json, type JsonRecord, textOf } from '../json.ts'
import type { Tool } from './tool.ts'

export const vault: Tool = {
  format: 'vault',
  name: 'Vault',
  recognises(documents) {
    if (documents.every(isAnswer)) return true
    const [only] = documents
    if (documents.length > 1 || !isRecord(only) || !isPathMap(only)) return false
    return Object.entries(only).every(([path, secret]) => path.includes('/') || isAnswer(secret))
  },
  read(documents) {
    if (documents.every(isAnswer)) return { secrets: documents.flatMap((answer) => fieldsOf([], dataOf(answer))) }
    const [only] = documents
    if (documents.length > 1 || !isRecord(only) || !isPathMap(only)) return undefined
    return {
      secrets: Object.entries(only).flatMap(([path, secret]) =>
        fieldsOf(segmentsOf(path), isAnswer(secret) ? dataOf(secret) : secret),
      ),
    }
  },
}

export const segmentsOf = (path: string): string[] => path.split('/').filter((segment) => segment !== '')

/** A number, a boolean, a list or an object becomes JSON text, as with `vault kv get -field`. */
export function fieldsOf(path: readonly string[], data: Json | undefined): FoundSecret[] {
  if (!isRecord(data)) {
    throw cannotImport('Vault has no data here, because the version was deleted', [path.join('/') || 'the secret'])
  }
  const empty = Object.entries(data).filter(([, value]) => value === null)
  if (empty.length > 0) {
    const names = empty.map(([name]) => [...path, name].join('/'))
    throw cannotImport('These fields are null', names)
  }
  return Object.entries(data).map(([name, value]) => ({ path: [...path, name], value: textOf(value) ?? '' }))
}

const isPathMap = (value: JsonRecord): boolean => Object.values(value).every(isRecord) && Object.keys(value).length > 0

const isAnswer = (value: Json | undefined): value is JsonRecord =>
  isRecord(value) &&
  (isRecord(value.data) || value.data === null) &&
  ('lease_id' in value || 'request_id' in value || isVersioned(value.data))

/** KV version 2 wraps the fields and adds the metadata of the version. */
const isVersioned = (data: Json | undefined): data is JsonRecord =>
  isRecord(data) && 'data' in data && isRecord(data.metadata) && 'version' in data.metadata

/** The fields in an answer of Vault, whatever the version of the mount. */
export const dataOf = (answer: JsonRecord): Json | undefined =>
  isVersioned(answer.data) ? answer.data.data : answer.data
