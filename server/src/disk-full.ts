/** Recognises a full disk, or a used-up quota, in the errors of files, SQLite and PostgreSQL. */
import { codeOf } from './error-code.ts'

const codes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', '53100'])
const sqliteFull = 13

export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (codes.has(codeOf(error)) || ('errcode' in error && Number(error.errcode) === sqliteFull)) return true
  return error.cause !== undefined && error.cause !== error && isDiskFull(error.cause)
}
