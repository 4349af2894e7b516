/** The service as `npm start` runs it: the options of Node decide whether memory can be returned. */
import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { caller } from '../../../test/caller.ts'
import { createDatabase, createProject, type Database, registerOwner } from '../../../test/harness.ts'
import { listening, startNode } from '../../../test/program.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { nodeOptions, startEnvironment } from '../../../test/start-command.ts'
import { until } from '../../../test/wait.ts'

const mebibyte = 1024

let database: Database
beforeEach(async () => {
  database = await createDatabase()
})
afterEach(() => database.drop())

/** In KiB: the most that the process has held, and what it holds now. */
function memoryOf(pid: number | undefined): { peak: number; now: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const figure = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
  return { peak: figure('VmHWM'), now: figure('VmRSS') }
}

test('an idle service returns the memory of its load to the system, and goes on', { timeout: 600_000 }, async () => {
  const settings = {
    COFFER_PORT: '0',
    COFFER_RATE_LIMIT: '0',
    COFFER_LOG_LEVEL: 'debug',
    COFFER_SETUP_CODE: setupCode,
  }
  const program = startNode([...nodeOptions, 'server/src/main.ts'], {
    ...startEnvironment,
    ...database.settings,
    ...settings,
  })
  const service = await listening(program)
  try {
    const call = caller(service.url)
    const { session: token } = await registerOwner({ call })
    await createProject({ call }, token, 'load')
    const path = '/v1/workspace/main/project/load/secret'
    const secrets = Array.from({ length: 2_000 }, (_, index) => ({ key: `KEY_${index}`, value: 'a value '.repeat(20) }))
    const created = await call('POST', path, { token, body: { environments: ['development'], secrets } })
    expect(created.status, created.text).toBe(201)
    const list = () => fetch(service.url + path, { headers: { authorization: `Bearer ${token}` } })
    for (let round = 0; round < 20; round++) expect(await (await list()).json()).toHaveLength(2_000)

    const { pid } = service.program.child
    await until(
      () => {
        const { peak, now } = memoryOf(pid)
        const isReturned = service.messages().includes('idle: unused memory was returned to the system')
        return isReturned && peak - now > 10 * mebibyte ? true : undefined
      },
      500_000,
      'memory is returned',
    )
    expect(await (await list()).json()).toHaveLength(2_000)
  } finally {
    await service.destroy()
  }
})
