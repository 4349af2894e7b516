/** Tables as CSV (RFC 4180), for spreadsheets. */
import type { Table } from './table.ts'

export const formatCsv = ({ columns, rows }: Table): string =>
  [columns, ...rows].map((row) => `${row.map((cell) => quote(String(cell))).join(',')}\r\n`).join('')

/** A spreadsheet would compute a name that starts like a formula: an apostrophe makes it text. */
function quote(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
