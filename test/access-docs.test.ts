/** The commands of docs/access.md work: each block is run as it is written, in the order of the page. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addUser, createProject, createToken } from './harness.ts'
import { type SdkService, startSdkService } from './sdk-service.ts'

const root = join(import.meta.dirname, '..')
const value = 'postgres://canary@db/app'

let running: SdkService
let folder: string
beforeAll(async () => {
  running = await startSdkService()
  const { service, session } = running
  const shop = await createProject(service, session, 'shop')
  const body = { environments: ['production'], secrets: [{ key: 'DATABASE_URL', value }] }
  const written = await service.call('POST', '/v1/workspace/main/project/shop/secret', { token: session, body })
  expect(written.status, written.text).toBe(201)
  const { id: workspaceId } = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body
  await addUser(service, 'ann@example.com', { workspaceId, role: 'member' })
  const production = shop.environments.find(({ name }) => name === 'production')?.id ?? ''
  await createToken(service, session, { name: 'nightly', permission: 'read', scope: { environments: [production] } })
  folder = mkdtempSync(join(tmpdir(), 'coffer-access-'))
  writeFileSync(join(folder, 'coffer'), `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'cli/start.js')}' "$@"\n`)
  chmodSync(join(folder, 'coffer'), 0o755)
})
afterAll(async () => {
  await running.stop()
  rmSync(folder, { recursive: true })
})

type Ended = { readonly code: number; readonly out: string; readonly err: string }

function runScript(script: string): Promise<Ended> {
  const place = { COFFER_URL: running.service.url, COFFER_TOKEN: running.session, COFFER_WORKSPACE: 'main' }
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, TMPDIR: tmpdir(), ...place }
  return new Promise((resolve) => {
    const child = execFile('bash', ['-ec', script], { cwd: folder, env }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    )
    child.stdin?.end()
  })
}

test('every command of the page succeeds and prints what the page says', async () => {
  const page = readFileSync(join(root, 'docs/access.md'), 'utf8')
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)\n```$/gm)].map(([, code = '']) => code)
  const commands = blocks.filter((block) => /\bcoffer [a-z]/.test(block))
  const printed = new Map<string, string>()
  for (const command of commands) {
    const script = command.replace('COFFER_TOKEN_FILE=', 'COFFER_TOKEN= COFFER_TOKEN_FILE=')
    const { code, out, err } = await runScript(script)
    expect(code, `${command}\n${out}${err}`).toBe(0)
    printed.set(command, out)
  }
  expect(commands.length).toBeGreaterThan(8)
  const outputOf = (text: string) => [...printed].find(([command]) => command.includes(text))?.[1] ?? ''

  expect(outputOf('members list')).toContain(
    'ann@example.com\taccount-created\tdeveloper:shop/staging member:shop/production',
  )
  expect(outputOf('printenv DATABASE_URL')).toBe(`${value}\n`)
  expect(outputOf('token transfer')).toMatch(/\tnightly\tdeploy\n$/)
  const overview = outputOf('access -p shop -e production')
  expect(overview).toContain('user\tann@example.com\t\tshop/production\tread\t')
  expect(overview).toContain('service\tdeploy\t\tshop/production\tread\t')
  expect(overview).toContain('token\tserver\tdeploy\tshop/production\tread\t')
  expect(readFileSync(join(folder, 'access.csv'), 'utf8')).toMatch(/^type,name,owner,environment,right,problem\r\n/)

  const [, shown = ''] = /The first line of each answer:\n\n```\n([\s\S]*?)\n```/.exec(page) ?? []
  const answers = outputOf('explain server write')
    .split('\n')
    .filter((line) => /^(yes|no)\t/.test(line))
  expect(shown.split('\n').map((line) => line.replace(/^(\w+) +/, '$1\t'))).toEqual(answers)
  expect(outputOf('--exit-code')).toMatch(/^no\tThe service account deploy may not write secrets in production of shop/)
})
