/** Which format a file has: by `--format`, by its content, or by its name. */
import { extname } from 'node:path'
import { CliError } from '../error.ts'
import type { Found } from './entry.ts'
import { parseDocuments } from './json.ts'
import { aws } from './tool/aws.ts'
import { doppler } from './tool/doppler.ts'
import { infisical } from './tool/infisical.ts'
import { onePassword } from './tool/one-password.ts'
import type { Tool } from './tool/tool.ts'
import { vault } from './tool/vault.ts'

/** Formats that the service reads itself. Its errors name the line. */
const fileFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
export type FileFormat = (typeof fileFormats)[number]

const tools: readonly Tool[] = [vault, doppler, infisical, onePassword, aws]
export const importFormats: readonly string[] = [...fileFormats, ...tools.map(({ format }) => format)]

type Recognised =
  | { readonly kind: 'file'; readonly format: FileFormat }
  | { readonly kind: 'tool'; readonly name: string; readonly found: Found }

/** `fileName` is undefined for stdin. */
export function recognise(text: string, fileName: string | undefined, asked: string | undefined): Recognised {
  const isFormat = (format: string): format is FileFormat => fileFormats.some((one) => one === format)
  if (asked !== undefined && isFormat(asked)) return { kind: 'file', format: asked }
  const documents = /^\s*[[{]/.test(text) ? parseDocuments(text) : undefined
  const tool = tools.find(({ format, recognises }) =>
    asked === undefined ? documents !== undefined && recognises(documents) : format === asked,
  )
  if (tool) {
    const found = documents && tool.read(documents)
    if (!found) throw new CliError('failure', `This is not a JSON export of ${tool.name}.`, 'coffer import --help')
    return { kind: 'tool', name: tool.name, found }
  }
  if (documents && (documents.length > 1 || Array.isArray(documents[0]))) {
    throw new CliError('failure', 'This is JSON, but not the export of a known tool.', 'coffer import --help')
  }
  return { kind: 'file', format: documents ? 'json' : formatOf(text, fileName) }
}

const byExtension: Readonly<Record<string, FileFormat>> = {
  '.json': 'json',
  '.yaml': 'yaml',
  '.yml': 'yaml',
  '.csv': 'csv',
}

/** Text that is not JSON: by the ending of the file, else by its first line that is not a comment. */
function formatOf(text: string, fileName: string | undefined): FileFormat {
  const byName = fileName === undefined ? undefined : byExtension[extname(fileName).toLowerCase()]
  if (byName) return byName
  const first = text.split('\n').find((line) => line.trim() !== '' && !line.trimStart().startsWith('#')) ?? ''
  if (/^\s*\{/.test(first)) return 'json'
  if (/^(---|[A-Za-z0-9_-]+:(\s|$))/.test(first)) return 'yaml'
  const columns = first
    .toLowerCase()
    .replaceAll('"', '')
    .split(',')
    .map((name) => name.trim())
  return columns.includes('key') && columns.includes('value') ? 'csv' : 'dotenv'
}
