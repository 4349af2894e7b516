/** The built package works in an empty folder, without this repository. */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { readCommit } from '../../commit.ts'
import { startSdkService } from '../../test/sdk-service.ts'
import { buildPackage } from '../build.ts'
import { commandTable } from './commands/table.ts'
import { version } from './version.ts'

const compiled = '.cache/coffer-compiled'

test('npm installs it, its help lists every command, and it reads from a service', async () => {
  const service = await startSdkService()
  onTestFinished(() => service.stop())
  const folder = await mkdtemp(join(tmpdir(), 'coffer-package-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [built, consumer] = [join(folder, 'built'), join(folder, 'consumer')]
  await buildPackage(built)
  expect((await readdir(built)).sort()).toEqual([
    'LICENSE',
    'README.md',
    'coffer.js',
    'command',
    'main.js',
    'package.json',
  ])
  const manifest = JSON.parse(await readFile(join(built, 'package.json'), 'utf8'))
  expect(manifest).toMatchObject({ name: '@coffer/cli', bin: { coffer: 'coffer.js' }, engines: { node: '>=24' } })
  expect(manifest.dependencies).toBeUndefined()

  await mkdir(consumer)
  await writeFile(join(consumer, 'package.json'), '{}')
  // The service runs in this process, so nothing may block it.
  const run = async (program: string, args: readonly string[], env: Readonly<Record<string, string | undefined>>) =>
    (await promisify(execFile)(program, args, { cwd: consumer, env: { PATH: process.env.PATH, ...env } })).stdout
  const { HOME } = process.env
  await run('npm', ['pack', built, '--silent'], { HOME })
  await run('npm', ['install', '--offline', '--silent', `./coffer-cli-${version}.tgz`], { HOME })
  const coffer = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    run(join(consumer, 'node_modules/.bin/coffer'), args, { HOME: folder, ...env })

  expect(await coffer(['--version'])).toBe(`${version} (${readCommit()})\n`)
  const older = "--import=data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.1.0'}})"
  await expect(coffer(['--version'], { NODE_OPTIONS: older })).rejects.toMatchObject({
    code: 1,
    stderr: 'coffer needs Node 24 or later; this is Node 20.1.0.\n',
  })
  const help = await coffer(['--help'])
  for (const { name, about, isHidden } of commandTable) {
    if (!isHidden) expect(help).toMatch(new RegExp(`^ +${name} +${about.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`, 'm'))
  }
  expect(JSON.parse(await coffer(['whoami', '--json'], service.env))).toMatchObject({ credential: { type: 'static' } })

  // Code that few runs need is in files of its own.
  await service.write({ KEY: 'a secret value' })
  const print = ['--', 'sh', '-c', 'echo "$KEY"']
  expect(await coffer(['run', ...print], service.env)).toBe('a secret value\n')

  // The compiled program is kept for later starts, which replace what they cannot use.
  const kept = await readdir(join(folder, compiled))
  expect(kept).toHaveLength(1)
  const file = join(folder, compiled, kept[0] ?? '')
  const { size, mode } = await stat(file)
  expect(mode & 0o777).toBe(0o600)
  for (const damaged of ['', 'x'.repeat(size), (await readFile(file)).subarray(0, -8)]) {
    await writeFile(file, damaged)
    expect(await coffer(['run', ...print], service.env)).toBe('a secret value\n')
    expect((await stat(file)).size).toBeGreaterThan(size / 2)
  }
  // What somebody else could have put there would run with the rights of this user.
  const open = join(folder, 'open')
  await mkdir(open)
  await chmod(open, 0o777)
  expect(await coffer(['run', '--no-cache', ...print], { ...service.env, HOME: open })).toBe('a secret value\n')
  expect(await readdir(open)).toEqual([])
  const shared = join(folder, 'shared')
  await mkdir(join(shared, compiled), { recursive: true })
  await chmod(join(shared, compiled), 0o770)
  await writeFile(join(shared, compiled, kept[0] ?? ''), 'planted')
  expect(await coffer(['run', ...print], { ...service.env, HOME: shared })).toBe('a secret value\n')
  expect(await readFile(join(shared, compiled, kept[0] ?? ''), 'utf8')).toBe('planted')
  for (const HOME of ['', '/dev/null']) {
    expect(await coffer(['run', ...print], { ...service.env, HOME })).toBe('a secret value\n')
  }

  expect(await coffer(['run', '--offline', '--redact', ...print], service.env)).toBe('***\n')
  await expect(coffer(['run', '-e', 'absent', ...print], service.env)).rejects.toMatchObject({
    code: 125,
    stderr: expect.stringMatching(/^coffer: There is no environment absent .*\ntry: /),
  })
})
