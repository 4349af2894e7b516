import type { SecretImport } from '@coffer/sdk'

export type ImportFormat = SecretImport['format']

export const formatNames: Readonly<Record<ImportFormat, string>> = {
  dotenv: '.env',
  json: 'JSON',
  yaml: 'YAML',
  csv: 'CSV',
}

const endings = new Map<string, ImportFormat>([
  ['json', 'json'],
  ['yaml', 'yaml'],
  ['yml', 'yaml'],
  ['csv', 'csv'],
])

/** A guess from the name of the file or else from its first line; the person can choose another format. */
export function recogniseFormat(content: string, fileName = ''): ImportFormat {
  const ending = endings.get(fileName.toLowerCase().split('.').at(-1) ?? '')
  if (ending) return ending
  if (/(^|\/)\.env/.test(fileName)) return 'dotenv'
  const first = content
    .replace('\ufeff', '')
    .split('\n', 200)
    .map((line) => line.trim())
    .find((line) => line !== '' && !line.startsWith('#'))
  if (first === undefined) return 'dotenv'
  if (first.startsWith('{')) return 'json'
  if (first === '---' || /^["']?[\w-]+["']?:(\s|$)/.test(first)) return 'yaml'
  const columns = first.split(',').map((column) => column.replaceAll('"', '').trim().toLowerCase())
  return columns.includes('key') && columns.includes('value') ? 'csv' : 'dotenv'
}
