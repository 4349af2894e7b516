/** Tables on terminals of any width: nothing is lost, and lines end where the terminal ends. */
import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { startSdkService } from '../../../test/sdk-service.ts'
import { times } from '../../../test/tier.ts'
import { fitColumns, widthOf } from './layout.ts'
import { formatTable, visible } from './table.ts'

const id = '0191f4a2-7c3b-7f10-8a4e-3d5b6c7d8e9f'
const rows = [
  [id, 'ci', 'api/development, api/staging, shop/production', '2026-11-18 23:40'],
  [id, 'deploy', 'shop', 'never'],
]
const columns = ['id', 'name', 'scope', 'expires']
const formatted = (width: number | undefined, isWhole = false) =>
  formatTable({ columns, rows, isWhole }, { isTerminal: true, hasColor: false, width })

test('a table that fits, or whose terminal has no known width, has a line for each row', () => {
  for (const width of [undefined, 0, 110, 500]) expect(formatted(width).split('\n')).toHaveLength(rows.length + 2)
})

test('a narrower terminal breaks the widest cells between words, and no id', () => {
  expect(formatted(80)).toBe(
    [
      'ID                                    NAME    SCOPE             EXPIRES',
      `${id}  ci      api/development,  2026-11-18 23:40`,
      '                                              api/staging,',
      '                                              shop/production',
      `${id}  deploy  shop              never`,
      '',
    ].join('\n'),
  )
})

test('a terminal that is too narrow for columns gets a line for each cell', () => {
  expect(formatted(50)).toBe(
    [
      `ID       ${id}`,
      'NAME     ci',
      'SCOPE    api/development, api/staging,',
      '         shop/production',
      'EXPIRES  2026-11-18 23:40',
      '',
      `ID       ${id}`,
      'NAME     deploy',
      'SCOPE    shop',
      'EXPIRES  never',
      '',
    ].join('\n'),
  )
})

test('cells that people copy stay whole', () => {
  expect(formatted(30, true)).toBe(formatted(undefined))
})

test('no width loses a letter, and no line of columns is too long', () => {
  const cell = fc.oneof(fc.lorem({ maxCount: 12 }), fc.string({ unit: 'grapheme', maxLength: 60 }), fc.constant(''))
  const table = fc.array(fc.tuple(cell, cell, cell), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(table, fc.integer({ min: 1, max: 200 }), (rows, width) => {
      const text = formatTable({ columns: ['a', 'b', 'c'], rows }, { isTerminal: true, hasColor: false, width })
      const letters = (text: string) => [...text.replace(/\s/g, '')].sort().join('')
      const isRecords = !fitColumns([['A', 'B', 'C'], ...rows.map((row) => row.map(visible))], width)
      expect(letters(text)).toBe(letters('ABC'.repeat(isRecords ? rows.length : 1) + rows.flat().map(visible).join('')))
      if (!isRecords) for (const line of text.split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(width)
    }),
    { numRuns: times(500, 20_000) },
  )
})

describe('on a real terminal', () => {
  test('a list fits into 60 columns, a share stays whole, and programs get one line for each row', async () => {
    const coffer = await startSdkService()
    try {
      const note = 'A note of many words, which a narrow terminal shows on several lines of its column.'
      const shell = openShell({ ...coffer.env, COFFER_TOKEN: coffer.session })
      expect(await shell.coffer(['secrets', 'set', 'NOTED=1', '--note', note])).toMatchObject({ code: 0 })
      const { code, out } = await shell.terminal(['secrets', 'list'], { columns: 60 }).ended
      expect(code).toBe(0)
      const lines = stripVTControlCharacters(out).replaceAll('\r', '').split('\n')
      expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(60)
      for (const word of note.split(' ')) expect(out).toContain(word)
      expect((await shell.coffer(['secrets', 'list'])).out).toContain(`\t${note}\n`)
      const long = 'x'.repeat(150)
      await coffer.write({ LONG: long })
      const link = (await shell.coffer(['share', 'LONG', '-q'])).out.trim()
      const reachable = link.replace('http://localhost:8080', coffer.service.url)
      const opened = await openShell().terminal(['share', '--open', reachable, '-y'], { columns: 60 }).ended
      expect(opened.out).toContain(long)
    } finally {
      await coffer.stop()
    }
  })
})
