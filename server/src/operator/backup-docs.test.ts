/** The commands of docs/backup.md work as they are written, in their order. */
import { execFile } from 'node:child_process'
import { copyFile, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createDatabase, createProject, engine, openService, registerOwner } from '../../../test/harness.ts'
import { blocksOf } from '../../../test/page-block.ts'

const root = join(import.meta.dirname, '../../..')
const run = promisify(execFile)

test('docs/backup.md leads from a running service to a restored store, and to the other engine', async () => {
  const blocks = blocksOf('docs/backup.md').flatMap(({ language, code }) => (language === 'sh' ? [code] : []))
  const [backup = '', verify = '', restore = '', move = ''] = blocks
  expect(blocks.length).toBe(4)
  const database = await createDatabase()
  const other = await createDatabase()
  const folder = database.dataDir
  const dataDir = join(folder, 'data')
  await mkdir(dataDir)
  // The page restores a store in a folder; on PostgreSQL only the move has a database.
  const settings = { COFFER_DATA_DIR: dataDir }
  const variables = { BACKUP: join(folder, 'b.backup'), KEY: join(folder, 'kept.key') }
  const runBlock = async (block: string, more: Record<string, string> = {}) => {
    const script = block.replaceAll(/(?<![\w"$./-])data(?=[ /\n-])/g, dataDir)
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...settings, ...variables, ...more }
    return (await run('sh', ['-euc', script], { cwd: root, env })).stdout
  }

  const service = await openService(settings, dataDir)
  const owner = await registerOwner(service)
  await createProject(service, owner.session, 'kept')
  expect(await runBlock(backup)).toContain('Wrote and verified')
  expect(await runBlock(verify)).toContain('  ok     ')
  await createProject(service, owner.session, 'lost')
  await copyFile(join(dataDir, 'master.key'), variables.KEY)
  await service.stop()
  const restored = await runBlock(restore)
  expect(restored).toContain('Ended 1 sessions')
  expect(restored).not.toContain('wrong')
  if (engine === 'postgres') {
    await rm(variables.BACKUP)
    const moved = await runBlock(move, { DATABASE: other.settings.COFFER_DATABASE_URL ?? '' })
    const digests = [...moved.matchAll(/digest ([0-9a-f]{64})/g)].map(([, digest]) => digest)
    expect(digests.length).toBe(2)
    expect(new Set(digests).size).toBe(1)
  } else expect(move).toContain('restore --move')
  await other.drop()
  await database.drop()
})
