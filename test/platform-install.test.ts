/** `npm ci` from an empty cache, on each platform that builds Coffer: it succeeds, and brings the native packages. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'coffer-platform-'))
const checkout = join(folder, 'checkout')

beforeAll(() => {
  const files = [
    '.npmrc',
    'package.json',
    'package-lock.json',
    ...globSync('{contract,sdk,cli,dashboard,server}/package.json', { cwd: root }),
  ]
  for (const file of files) {
    mkdirSync(dirname(join(checkout, file)), { recursive: true })
    copyFileSync(join(root, file), join(checkout, file))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each([
  ['linux', 'x64', 'linux-x64-gnu', 'linux-x64'],
  ['linux', 'arm64', 'linux-arm64-gnu', 'linux-arm64'],
  ['darwin', 'x64', 'darwin-x64', 'darwin-x64'],
  ['darwin', 'arm64', 'darwin-arm64', 'darwin-arm64'],
  ['win32', 'x64', 'win32-x64-msvc', 'win32-x64'],
  ['win32', 'arm64', 'win32-arm64-msvc', 'win32-arm64'],
])('npm ci installs what %s on %s needs to build and lint', (os, cpu, native, short) => {
  const command = [
    'ci',
    `--os=${os}`,
    `--cpu=${cpu}`,
    '--ignore-scripts',
    '--no-progress',
    `--cache=${join(folder, 'cache')}`,
  ]
  const { status, stderr } = spawnSync('npm', command, {
    cwd: checkout,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  })
  expect(stderr).not.toMatch(/npm error/)
  expect(status).toBe(0)
  const needed = [
    `@rolldown/binding-${native}`,
    `@tailwindcss/oxide-${native}`,
    `@node-rs/argon2-${native}`,
    `lightningcss-${native}`,
    `@biomejs/cli-${short}`,
    `@typescript/typescript-${short}`,
  ]
  expect(needed.filter((name) => !existsSync(join(checkout, 'node_modules', name)))).toEqual([])
})
