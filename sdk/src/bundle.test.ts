/** The bundle of an application: its size, its parts, and a run in a real browser and a bare process. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { builtinModules } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { browserOptions } from '../../test/browser-program.ts'
import { startNode } from '../../test/program.ts'
import { type SdkService, startSdkService } from '../../test/sdk-service.ts'

const packageFolder = join(import.meta.dirname, '..')

/** Bundles an application whose only statement this is. */
async function bundle(statement: string): Promise<{ code: string; gzippedBytes: number }> {
  const build = await rolldown({
    input: 'application',
    plugins: [
      {
        name: 'application',
        resolveId: (id) => (id === 'application' ? id : undefined),
        load: (id) => (id === 'application' ? statement : undefined),
      },
    ],
  })
  const { output } = await build.generate({ format: 'esm', minify: true })
  await build.close()
  const [{ code, imports }] = output
  expect(imports).toEqual([])
  return { code, gzippedBytes: gzipSync(code).length }
}

const entry = join(packageFolder, 'src/coffer.ts')
const nodeEntry = join(packageFolder, 'src/node-transport.ts')

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ GREETING: 'grüß dich' })
})
afterAll(() => running.stop())

test('coffer() takes at most 12 KB, gzipped, and imports nothing of Node', async () => {
  const { code, gzippedBytes } = await bundle(`export { coffer } from '${entry}'`)
  expect(gzippedBytes).toBeLessThanOrEqual(12 * 1024)
  for (const name of builtinModules) expect(code).not.toMatch(new RegExp(`(from|import\\()\\s*['"](node:)?${name}['"]`))
})

test('a bundle holds only the parts that are used', async () => {
  const secretsOnly = await bundle(`export { openSecrets } from '${entry}'`)
  expect(secretsOnly.code).not.toContain('/rbac')
  const apiOnly = await bundle(`export { createApi } from '${entry}'`)
  expect(apiOnly.code).toContain('/rbac')
  expect(apiOnly.code).not.toContain('/v1/secrets?')
  const errorOnly = await bundle(`export { MissingSecret } from '${entry}'`)
  expect(errorOnly.code.length).toBeLessThan(1_000)
})

test('an application in Chromium reads secrets and calls the API', async () => {
  const { code } = await bundle(`import { coffer } from '${entry}'; globalThis.coffer = coffer`)
  const browser = await chromium.launch(await browserOptions())
  onTestFinished(() => browser.close())
  // The service has no page to run scripts on yet, so its security policy is set aside.
  const page = await browser.newPage({ bypassCSP: true })
  await page.goto(`${running.service.url}/healthz`)
  await page.addScriptTag({ type: 'module', content: code })
  await page.waitForFunction('globalThis.coffer !== undefined')
  const { token, session, service } = running
  const given = JSON.stringify({ token, session, url: service.url })
  const result = await page.evaluate(`(async ({ token, session, url }) => {
    const place = { workspace: 'main', project: 'api', environment: 'development' }
    const secrets = await coffer({ url, credential: token, ...place })
    const refused = await coffer({ url, credential: 'wrong', ...place }).catch((error) => error)
    const unreachable = await coffer
      .api({ url: 'http://127.0.0.1:1', credential: token, retries: 0 })
      .me.read()
      .catch((error) => error)
    const teams = await coffer.api({ url, credential: session }).team.list({ ws: 'main' })
    return {
      greeting: secrets.get('GREETING'),
      change: await secrets.refresh(),
      refused: [refused.name, refused.status, typeof refused.requestId],
      unreachable: [unreachable.name, unreachable.code],
      teams: teams.map(({ name }) => name),
    }
  })(${given})`)
  expect(result).toEqual({
    greeting: 'grüß dich',
    change: { added: [], changed: [], removed: [] },
    refused: ['ApiError', 401, 'string'],
    unreachable: ['ConnectionError', 'UNKNOWN'],
    teams: ['Everyone'],
  })
})

test('a process with the transport for Node loads neither fetch nor WebSocket', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-bundle-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { code } = await bundle(`
    import { coffer } from '${entry}'
    import { nodeTransport } from '${nodeEntry}'
    const secrets = await coffer({ platform: { transport: nodeTransport } })
    console.log(secrets.get('GREETING'))
    console.log(process.moduleLoadList.some((name) => name.includes('undici')))
  `)
  const file = join(folder, 'application.mjs')
  await writeFile(file, code)
  const { out, err } = await startNode([file], running.env).ended
  expect(err).toBe('')
  expect(out).toBe('grüß dich\nfalse\n')
})

test('the package is found by its name', async () => {
  const sdk = await import('@coffer/sdk')
  const node = await import('@coffer/sdk/node')
  expect([typeof sdk.coffer, typeof sdk.coffer.api, typeof node.nodeTransport]).toEqual(Array(3).fill('function'))
})
