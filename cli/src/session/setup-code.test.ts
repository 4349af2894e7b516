/** Which setup code `coffer login` sends without asking. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findSetupCode } from './setup-code.ts'

const folder = mkdtempSync(join(tmpdir(), 'coffer-code-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = join(folder, 'setup-code')
writeFileSync(file, 'the-code\n', { mode: 0o600 })
const find = (url: string) => findSetupCode({ COFFER_DATA_DIR: folder }, url)

test.each(['http://localhost:8080', 'http://127.0.0.1:8080', 'https://127.9.8.7', 'http://[::1]:8080'])(
  'the code of the file is for %s',
  (url) => {
    expect(find(url)).toBe('the-code')
  },
)

test.each([
  'https://coffer.example.com',
  'http://localhost.example.com:8080',
  'http://127.0.0.1.example.com',
  'http://0.0.0.0:8080',
  'http://192.0.2.1:8080',
])('no file is read for %s, another machine', (url) => {
  expect(find(url)).toBeUndefined()
})

test('a file of the wrong mode, size or content is none', () => {
  for (const mode of [0o640, 0o604, 0o666]) {
    chmodSync(file, mode)
    expect(find('http://localhost')).toBeUndefined()
  }
  chmodSync(file, 0o600)
  for (const text of ['', '\n', 'x'.repeat(201)]) {
    writeFileSync(file, text)
    expect(find('http://localhost')).toBeUndefined()
  }
})
