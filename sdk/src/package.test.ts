/** The built package works in an empty folder, without this repository. */
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startNode } from '../../test/program.ts'
import { startSdkService } from '../../test/sdk-service.ts'
import { buildPackage } from '../build.ts'
import manifest from '../package.json' with { type: 'json' }

const compiler = join(import.meta.dirname, '../../node_modules/.bin/tsc')

const application = `
import { type Api, coffer, listAll, MissingSecret } from '@coffer/sdk'
import { nodeTransport } from '@coffer/sdk/node'
import { seal } from '@coffer/sdk/share-envelope'

const secrets = await coffer({ platform: { transport: nodeTransport } })
const port: number = secrets.require('PORT', Number)
const api: Api = coffer.api()
const [secret] = await api.secret.list({ ws: 'main', prj: 'api' }, { environmentId: 'development' })
const missing = (() => { try { return secrets.get('ABSENT') } catch (error) { return error instanceof MissingSecret } })()
const { fragment } = await seal({ t: 'text', v: 'x' })
console.log(JSON.stringify([port, secret?.name, missing, fragment.length > 0, typeof listAll]))
// @ts-expect-error: the type of a value is known
const text: string = secrets.require('PORT', Number)
`

test('npm installs it without dependencies, the compiler knows its types, and it reads secrets', async () => {
  const service = await startSdkService()
  onTestFinished(() => service.stop())
  await service.write({ PORT: '5432' })
  const folder = await mkdtemp(join(tmpdir(), 'coffer-package-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [built, consumer] = [join(folder, 'built'), join(folder, 'consumer')]
  await buildPackage(built)
  const run = (program: string, ...args: string[]) => execFileSync(program, args, { cwd: consumer, encoding: 'utf8' })

  await mkdir(consumer)
  await writeFile(join(consumer, 'package.json'), '{ "type": "module" }')
  await writeFile(join(consumer, 'application.ts'), application)
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    lib: ['es2023', 'dom'],
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
  }
  await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
  run('npm', 'pack', built, '--silent')
  run('npm', 'install', '--offline', '--silent', `./coffer-sdk-${manifest.version}.tgz`)
  expect(await readdir(join(consumer, 'node_modules'))).toEqual(['.package-lock.json', '@coffer'])
  run(compiler)
  run(compiler, '--noEmit', '--module', 'preserve', '--moduleResolution', 'bundler')
  // A program for Node alone does not have the types of a browser.
  const nodeTypes = join(import.meta.dirname, '../../node_modules/@types')
  run(compiler, '--noEmit', '--lib', 'es2023', '--types', 'node', '--typeRoots', nodeTypes)
  const { out, err } = await startNode([join(consumer, 'application.js')], service.env).ended
  expect(err).toBe('')
  expect(JSON.parse(out)).toEqual([5432, 'PORT', true, true, 'function'])
})
