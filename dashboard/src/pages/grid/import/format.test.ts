import { expect, test } from 'vitest'
import { recogniseFormat } from './format.ts'

test.each([
  ['A=1\nB=2', '', 'dotenv'],
  ['# settings\n\nexport A=1', '', 'dotenv'],
  ['URL=https://example.com/?a: b', '', 'dotenv'],
  ['', '', 'dotenv'],
  ['{\n  "A": "1"\n}', '', 'json'],
  ['\ufeff{"A": "1"}', '', 'json'],
  ['# settings\nA: "1"\nB: 2', '', 'yaml'],
  ['---\nA: 1', '', 'yaml'],
  ['A:\n  B', '', 'yaml'],
  ['key,value\nA,1', '', 'csv'],
  ['"Note","Value","Key"\r\n', '', 'csv'],
  ['A,B=1', '', 'dotenv'],
  // The name of a file says more than its first line.
  ['A=1', 'secrets.yml', 'yaml'],
  ['A: 1', '.env.local', 'dotenv'],
  ['{', 'values.CSV', 'csv'],
  ['A=1', 'settings.constructor', 'dotenv'],
])('%j in the file %j is recognised as %s', (content, fileName, format) => {
  expect(recogniseFormat(content, fileName)).toBe(format)
})
