/**
 * 1Password: `op item get --format json` of one or several items, and of single fields with `--fields`. The name of a
 * field is its label, after the title of the item and the label of its section where these differ.
 */
import { CliError } from '../../error.ts'
import { isRecord, isText, type Json, type JsonRecord } from '../json.ts'
import type { Tool } from './tool.ts'

export const onePassword: Tool = {
  format: '1password',
  name: '1Password',
  recognises: (documents) => {
    const entries = documents.flat() as Json[]
    return entries.length > 0 && (entries.every(isItem) || entries.every(isField))
  },
  read(documents) {
    const entries = documents.flat() as Json[]
    if (entries.length === 0) return undefined
    if (entries.every(isField)) return readFields(entries.map((field) => ({ folders: [], field })))
    if (!entries.every(isItem)) return undefined
    if (!entries.some(({ fields }) => Array.isArray(fields))) {
      throw new CliError(
        'failure',
        'This is a list of items of 1Password without their fields.',
        'op item list --format json | op item get - --format json | coffer import -',
      )
    }
    return readFields(
      entries.flatMap(({ title, fields }) => {
        const list: readonly Json[] = Array.isArray(fields) ? fields : []
        return list.filter(isField).map((field) => ({ folders: [title], field }))
      }),
    )
  },
}

type Item = JsonRecord & { readonly title: string }
type Field = JsonRecord & { readonly id: string }

const isItem = (value: Json): value is Item =>
  isRecord(value) && isText(value.title) && (Array.isArray(value.fields) || isText(value.category))
const isField = (value: Json): value is Field =>
  isRecord(value) && isText(value.id) && isText(value.type) && !('title' in value)

/** Templates leave fields without a value in almost every item. */
function readFields(fields: readonly { readonly folders: readonly string[]; readonly field: Field }[]) {
  const found = fields.map(({ folders, field }) => {
    const section = isRecord(field.section) && isText(field.section.label) ? field.section.label : ''
    const label = isText(field.label) && field.label !== '' ? field.label : field.id
    return { path: [...folders, ...(section ? [section] : []), label], value: field.value }
  })
  return {
    secrets: found.flatMap(({ path, value }) => (isText(value) && value !== '' ? [{ path, value }] : [])),
    leftOut: found.flatMap(({ path, value }) => (isText(value) && value !== '' ? [] : [`${path.join('/')} (empty)`])),
  }
}
