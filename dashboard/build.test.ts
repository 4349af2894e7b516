/** Before a start: the dashboard is built if it changed, and no failure of that keeps the service from starting. */
import { execFile } from 'node:child_process'
import { appendFile, cp, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startNode } from '../test/program.ts'

const root = join(import.meta.dirname, '..')
let checkout: string

/** A checkout of its own: other tests use the pages of this one. */
beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  const isSource = (path: string) => !/\/(\.?dist|node_modules)\b/.test(path.slice(root.length))
  for (const name of ['dashboard', 'sdk/src', 'package-lock.json', 'tsconfig.json']) {
    await cp(join(root, name), join(checkout, name), { recursive: true, filter: isSource })
  }
  await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'))
})
afterAll(() => rm(checkout, { recursive: true, force: true }))

const prepare = () => startNode([join(checkout, 'dashboard/build.ts'), '--if-changed']).ended
const listFiles = async () => (await readdir(join(checkout, 'dashboard'))).filter((name) => name.includes('dist'))
const digest = () => readFile(join(checkout, 'dashboard/dist/.sources'), 'utf8')

test('without the packages that build, the start says so and goes on', async () => {
  await rename(join(checkout, 'node_modules'), join(checkout, 'aside'))
  const out =
    'Building the dashboard … failed. Coffer starts without it. A package for building is not installed: npm install adds it.\n'
  expect(await prepare()).toMatchObject({ code: 0, out, err: '' })
  expect(await listFiles()).toEqual([])
  await rename(join(checkout, 'aside'), join(checkout, 'node_modules'))
})

test('a start builds what is absent or has changed, in one line, and nothing else', async () => {
  expect(await prepare()).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^Building the dashboard … \d+\.\d s\n$/),
  })
  const built = await readdir(join(checkout, 'dashboard/dist'))
  expect(built).toEqual(
    expect.arrayContaining(['index.html', 'share.html', 'invite.html', 'device.html', 'reset.html', 'icon.svg']),
  )
  expect(await prepare()).toMatchObject({ code: 0, out: '', err: '' })

  await writeFile(join(checkout, 'dashboard/src/main.test.ts'), 'a test is no part of the pages')
  expect(await prepare()).toMatchObject({ code: 0, out: '' })

  const before = await digest()
  await appendFile(join(checkout, 'dashboard/src/look/base.css'), '\n.added { color: red }\n')
  // On a terminal too, it is one line and stays.
  const command = `'${process.execPath}' '${join(checkout, 'dashboard/build.ts')}' --if-changed`
  const { stdout } = await promisify(execFile)('script', ['-qefc', command, '/dev/null'])
  expect(stdout).toMatch(/^Building the dashboard … \d+\.\d s\r\n$/)
  expect(await digest()).not.toBe(before)
  expect(await listFiles()).toEqual(['dist'])
})

test('several builds at once all succeed, and leave one', async () => {
  const before = await digest()
  await appendFile(join(checkout, 'dashboard/src/look/base.css'), '\n.several { color: red }\n')
  for (const { code, out, err } of await Promise.all([prepare(), prepare(), prepare()])) {
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).not.toContain('failed')
  }
  expect(await digest()).not.toBe(before)
  expect(await listFiles()).toEqual(['dist'])
})

test('a build that fails leaves the last one as it was', async () => {
  const before = await digest()
  const source = join(checkout, 'dashboard/src/main.tsx')
  await appendFile(source, "\nimport './nothing.ts'\n")
  const { code, out } = await prepare()
  expect(code).toBe(0)
  expect(out).toMatch(/^Building the dashboard … failed\. Coffer starts with its last build\. [\s\S]*nothing\.ts/)
  expect(await digest()).toBe(before)
  expect(await listFiles()).toEqual(['dist'])
  expect((await readdir(join(checkout, 'dashboard/dist/assets'))).length).toBeGreaterThan(10)
  expect(await startNode([join(checkout, 'dashboard/build.ts')]).ended).toMatchObject({ code: 1 })
})

test('the development server serves the same page for each path', async () => {
  const { createServer } = await import('vite')
  const configFile = join(import.meta.dirname, 'vite.config.ts')
  const server = await createServer({ configFile, logLevel: 'silent', server: { port: 0, host: '127.0.0.1' } })
  await server.listen()
  try {
    const address = server.httpServer?.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const read = async (path: string) =>
      (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { accept: 'text/html' } })).text()
    expect(await read('/login?returnTo=%2Fme')).toContain('src="/src/plain/login.ts')
    expect(await read('/share/cof_share_x')).toContain('src="/src/plain/share.ts')
    expect(await read('/acme/shop')).toContain('src="/src/main.tsx')
  } finally {
    await server.close()
  }
})
