/** The drill of docs/keys.md works as it is written, in its order. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { SignedIn } from '@coffer/contract/auth'
import { expect, test } from 'vitest'
import { password } from '../../../test/harness.ts'
import { type Serving, serve } from '../../../test/process.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { until } from '../../../test/wait.ts'

const root = join(import.meta.dirname, '../../..')
const run = promisify(execFile)

test('the drill leads from a running service through a lost machine to an unsealed one', async () => {
  const page = await readFile(join(root, 'docs/keys.md'), 'utf8')
  const drill = page.slice(page.indexOf('## Drill'))
  const commands = [...drill.matchAll(/^\d\. [^`]*`(.*)`$/gm)].map(([, command = '']) => command)
  expect(commands).toHaveLength(7)
  const folder = await mkdtemp(join(tmpdir(), 'coffer-drill-'))
  const settings = { COFFER_DATA_DIR: join(folder, 'data') }
  const paths = { SHARES: join(folder, 'shares'), BACKUP: join(folder, 'drill.backup') }
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...settings, ...paths }

  const first = await serve(settings)
  const owner = { email: 'owner@example.com', name: 'Owner', password, setupCode }
  expect((await first.call<SignedIn>('POST', '/v1/auth/register', { body: owner })).status).toBe(201)
  let sealed: Serving | undefined
  for (const command of commands) {
    if (command.startsWith('mv ')) await first.stop()
    if (command.endsWith('npm start')) sealed = await serve({ ...settings, COFFER_MASTER_KEY_SHARES: 'on' })
    else await run('sh', ['-euc', command], { cwd: root, env })
  }
  const login = async () => {
    const answer = await sealed?.call('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    return answer?.status === 200 ? true : undefined
  }
  await until(login, 120_000, 'the owner signs in to the unsealed service')
  await sealed?.stop()
  await rm(folder, { recursive: true })
})
