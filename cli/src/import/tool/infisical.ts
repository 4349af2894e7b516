/** Infisical: `infisical export --format=json`, a list of secrets with their folders. */
import { isRecord, isText, type Json, type JsonRecord } from '../json.ts'
import type { Tool } from './tool.ts'
import { segmentsOf } from './vault.ts'

export const infisical: Tool = {
  format: 'infisical',
  name: 'Infisical',
  recognises: (documents) => read(documents) !== undefined,
  read,
}

function read([only, ...others]: readonly Json[]) {
  if (others.length > 0 || !Array.isArray(only) || only.length === 0) return undefined
  const entries: readonly Json[] = only
  if (!entries.every(isEntry)) return undefined
  return {
    secrets: entries.map(({ key, value, secretPath, comment }) => ({
      path: [...(isText(secretPath) ? segmentsOf(secretPath) : []), key],
      value,
      ...(isText(comment) && { note: comment }),
    })),
  }
}

const isEntry = (value: Json): value is JsonRecord & { key: string; value: string } =>
  isRecord(value) && isText(value.key) && isText(value.value)
