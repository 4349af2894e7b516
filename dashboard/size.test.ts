/** The compressed size of a first visit: a page that grows past its budget needs a split, or less code. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../test/browser.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../test/harness.ts'
import { createSecretProject } from '../test/secret-project.ts'
import { distFolder } from './build.ts'

let service: TestService
let owner: TestUser
let grid: string
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { FIRST: 'one' })
  grid = project.root.replace('/v1/workspace/', '/').replace('/project/', '/')
})
afterAll(() => service.stop())

/** Scripts and styles that the page has asked for so far. */
async function countFiles(page: Page): Promise<{ readonly files: number; readonly kilobytes: number }> {
  const urls: string[] = await page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
  const names = new Set(urls.map((url) => new URL(url).pathname).filter((path) => path.startsWith('/assets/')))
  const sizes = [...names].map((name) => sizeOf(join(distFolder, name)))
  return { files: sizes.length, kilobytes: sizes.reduce((sum, bytes) => sum + bytes, 0) / 1_000 }
}

function sizeOf(path: string): number {
  const compressed = statSync(`${path}.gz`, { throwIfNoEntry: false })
  return compressed?.size ?? gzipSync(readFileSync(path)).length
}

test.each(['/login', '/device', '/invite', '/share/cof_share_x'])('%s is a small page', async (path) => {
  const page = await openPage(service, { path, expectedErrors: [/40[0-9]/] })
  await page.getByRole('heading', { level: 1 }).waitFor()
  const { kilobytes } = await countFiles(page)
  expect(kilobytes).toBeGreaterThan(5)
  expect(kilobytes).toBeLessThan(20)
})

test('the grid takes 190 KB and 30 files at most', async () => {
  const page = await openPage(service, { path: grid, session: owner.session })
  await page.getByRole('rowheader', { name: 'FIRST' }).waitFor()
  const { files, kilobytes } = await countFiles(page)
  expect(kilobytes).toBeGreaterThan(100)
  expect(kilobytes).toBeLessThan(190)
  expect(files).toBeLessThanOrEqual(30)
})
