/** Compiled code is kept where no other user can put code of their own: Node runs what it finds there. */
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startCommand } from './program.ts'

const root = join(import.meta.dirname, '..')

let home: string
let shared: string
let packaged: string
beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-compile-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  home = join(folder, 'home')
  shared = join(folder, 'shared')
  packaged = join(folder, 'packaged')
  for (const path of [home, shared, packaged, join(packaged, 'lib')]) mkdirSync(path, { mode: 0o700 })
  chmodSync(shared, 0o1777)
  // The start of the package of the server, with a small program.
  copyFileSync(join(root, 'server/start-package.js'), join(packaged, 'coffer-server.js'))
  copyFileSync(join(root, 'compile-cache.js'), join(packaged, 'compile-cache.js'))
  writeFileSync(join(packaged, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(packaged, 'lib/main.js'), 'console.log("packaged")')
})

const programs = {
  'the command line': () => [join(root, 'cli/start.js'), 'status'],
  'the service': () => [join(root, 'server/start.js'), '--version'],
  'the package of the service': () => [join(packaged, 'coffer-server.js')],
}

/** Without the folder that the other tests name. Node says which folders it reads. */
async function start(name: keyof typeof programs, settings: Record<string, string> = {}): Promise<string> {
  const env = { HOME: home, TMPDIR: shared, NODE_DEBUG_NATIVE: 'COMPILE_CACHE', ...settings }
  const args = ['-u', 'NODE_COMPILE_CACHE', process.execPath, ...programs[name]()]
  const { code, out, err } = await startCommand('env', args, env).ended
  expect({ code, err }).toMatchObject({ code: 0 })
  return out + err
}

const kept = () => join(home, '.cache/coffer-node')

test.each(Object.keys(programs) as (keyof typeof programs)[])(
  '%s keeps compiled code below the home of its user, and reads none in the folder for temporary files',
  async (name) => {
    mkdirSync(join(shared, 'node-compile-cache'), { mode: 0o777 })
    const said = await start(name)
    expect(said).not.toContain(shared)
    expect(readdirSync(join(shared, 'node-compile-cache'))).toEqual([])
    expect(readdirSync(kept())).toHaveLength(1)
    expect(statSync(kept()).mode & 0o777).toBe(0o700)
    expect(await start(name)).toContain(`reading cache from ${kept()}`)
  },
)

// All programs choose the folder in the same module; this one starts in no time.
describe('the package of the service', () => {
  const name = 'the package of the service'

  test.each([
    ['others can write to', () => chmodSync(kept(), 0o770)],
    ['others can read', () => chmodSync(kept(), 0o755)],
    ['is in a home that others can write to', () => chmodSync(home, 0o777)],
    ['is in a cache that others can write to', () => chmodSync(join(home, '.cache'), 0o777)],
  ])('ignores a folder that %s, and leaves it as it is', async (_, open) => {
    mkdirSync(kept(), { recursive: true, mode: 0o700 })
    open()
    const { mode } = statSync(kept())
    expect(await start(name)).not.toContain('[compile cache] reading cache')
    expect(readdirSync(kept())).toEqual([])
    expect(statSync(kept()).mode).toBe(mode)
  })

  test.runIf(process.getuid?.() === 0)('ignores a folder and a home of another user', async () => {
    mkdirSync(kept(), { recursive: true, mode: 0o700 })
    chownSync(kept(), 12_345, 12_345)
    expect(await start(name)).not.toContain('[compile cache] reading cache')
    // As with `sudo`, which keeps the home of the person.
    rmSync(kept(), { recursive: true })
    chownSync(home, 12_345, 12_345)
    expect(await start(name)).not.toContain('[compile cache] reading cache')
    expect(readdirSync(join(home, '.cache'))).toEqual([])
  })

  test('keeps nothing without a home', async () => {
    for (const HOME of ['', '/dev/null', join(shared, 'absent')]) await start(name, { HOME })
    expect(readdirSync(shared)).toEqual([])
  })
})
