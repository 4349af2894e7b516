/**
 * RFC 4180 with a header row. Parsed by hand, because errors must name the right line: csv-parse counts a CR LF inside
 * quotes as two lines.
 */
import { type Cursor, countLineBreaks, skip, startOf } from './cursor.ts'
import { type FoundEntry, maxWrittenLength, refuseLine, tooLong } from './entry.ts'

type Row = { readonly line: number; readonly cells: readonly string[] }

const maxColumns = 100

export function* readCsv(content: string): Generator<FoundEntry> {
  let columns: { readonly key: number; readonly value: number; readonly count: number } | undefined

  for (const { line, cells } of readRows(content)) {
    if (columns === undefined) {
      columns = readHeader(line, cells)
      continue
    }
    if (cells.length !== columns.count) {
      throw refuseLine(line, `expected ${columns.count} cells as in the header, found ${cells.length}`)
    }
    yield { line, key: cells[columns.key] ?? '', value: cells[columns.value] ?? '' }
  }

  if (columns === undefined) throw refuseLine(1, 'expected a header row with the columns key and value')
}

function readHeader(line: number, cells: readonly string[]) {
  const names = cells.map((cell) => cell.trim().toLowerCase())
  for (const name of ['key', 'value']) {
    if (names.filter((other) => other === name).length !== 1) {
      throw refuseLine(line, 'expected a header row with the columns key and value, each once')
    }
  }
  return { key: names.indexOf('key'), value: names.indexOf('value'), count: names.length }
}

function* readRows(content: string): Generator<Row> {
  const cursor = startOf(content)
  for (;;) {
    skip(cursor, /[\r\n]*/y)
    if (cursor.offset === content.length) return
    const line = cursor.line
    yield { line, cells: readCells(cursor) }
  }
}

function readCells(cursor: Cursor): string[] {
  const cells = [readCell(cursor)]
  while (cursor.content[cursor.offset] === ',') {
    if (cells.length === maxColumns) throw refuseLine(cursor.line, `expected no more than ${maxColumns} columns`)
    cursor.offset += 1
    cells.push(readCell(cursor))
  }
  return cells
}

/** Leaves the cursor at a comma, a line break or the end. */
function readCell(cursor: Cursor): string {
  return cursor.content[cursor.offset] === '"' ? readQuoted(cursor) : readUnquoted(cursor)
}

function readQuoted(cursor: Cursor): string {
  const { content, offset, line } = cursor
  let end = content.indexOf('"', offset + 1)
  while (end !== -1 && content[end + 1] === '"') {
    if (end - offset > maxWrittenLength) throw refuseLine(line, tooLong)
    end = content.indexOf('"', end + 2)
  }
  if (end === -1) throw refuseLine(line, 'the quote that opens this cell is never closed')

  const text = content.slice(offset + 1, end)
  cursor.offset = end + 1
  cursor.line += countLineBreaks(text)
  if (!/[,\r\n]/.test(content[cursor.offset] ?? ',')) {
    throw refuseLine(cursor.line, 'expected a comma or the end of the line after a closing quote')
  }
  return text.replaceAll('""', '"')
}

function readUnquoted(cursor: Cursor): string {
  const { content, offset, line } = cursor
  const special = /[,"\r\n]/g
  special.lastIndex = offset
  const match = special.exec(content)
  if (match?.[0] === '"') throw refuseLine(line, 'a cell that contains a quote must be quoted, and the quote doubled')
  cursor.offset = match?.index ?? content.length
  return content.slice(offset, cursor.offset)
}
