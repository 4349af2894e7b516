/** Scratch folders: what killed runs left is removed, and nothing of others is touched or stops the work. */
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createScratchFolder } from './scratch-folder.ts'

const prefix = 'coffer-verify-'
let parent: string
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'coffer-scratch-test-'))
})
afterEach(() => rmSync(parent, { recursive: true, force: true }))

const pathOf = (digit: string) => join(parent, `${prefix}${digit.repeat(12)}`)

function makeLeftover(path: string): string {
  mkdirSync(path)
  new DatabaseSync(join(path, 'lock')).close()
  return path
}

function runOnce(): void {
  const scratch = createScratchFolder(parent, prefix)
  expect(existsSync(scratch.path)).toBe(true)
  scratch.remove()
  expect(existsSync(scratch.path)).toBe(false)
}

test('what a killed run left is removed, and what is in use stays', () => {
  const left = makeLeftover(pathOf('a'))
  const unlocked = pathOf('b')
  mkdirSync(unlocked)
  utimesSync(unlocked, 0, 0)
  const used = createScratchFolder(parent, prefix)
  runOnce()
  expect([left, unlocked, used.path].map((path) => existsSync(path))).toEqual([false, false, true])
  used.remove()
})

test('a link is neither followed nor removed, and neither is the lock of a folder if it is a link', () => {
  const elsewhere = makeLeftover(join(parent, 'elsewhere'))
  symlinkSync(elsewhere, pathOf('a'))
  mkdirSync(pathOf('b'))
  symlinkSync(join(elsewhere, 'lock'), join(pathOf('b'), 'lock'))
  runOnce()
  expect(lstatSync(pathOf('a')).isSymbolicLink()).toBe(true)
  expect(existsSync(pathOf('b'))).toBe(true)
  expect(existsSync(join(elsewhere, 'lock'))).toBe(true)
})

test('a file with such a name, and a folder whose lock is no file or no database, do not stop the work', () => {
  writeFileSync(pathOf('a'), 'mine')
  mkdirSync(join(pathOf('b'), 'lock'), { recursive: true })
  mkdirSync(pathOf('c'))
  writeFileSync(join(pathOf('c'), 'lock'), 'no database'.repeat(1_000))
  runOnce()
  expect(existsSync(pathOf('a'))).toBe(true)
})

test.runIf(process.getuid?.() === 0)(
  "another user's folder and lock file stay, even if this user could remove them",
  () => {
    const theirs = makeLeftover(pathOf('a'))
    chownSync(theirs, 65_534, 65_534)
    const lock = join(makeLeftover(pathOf('b')), 'lock')
    chownSync(lock, 65_534, 65_534)
    runOnce()
    expect([theirs, lock].map((path) => existsSync(path))).toEqual([true, true])
  },
)
