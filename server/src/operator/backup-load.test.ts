/** A backup under full write load is one consistent state: every change is in it as a whole, or not at all. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Project } from '@coffer/contract/project'
import { expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDice, seed } from '../../../test/dice.ts'
import { createDatabase, createToken, registerOwner, startService } from '../../../test/harness.ts'
import { runProgram } from '../../../test/start-server.ts'
import { findBrokenRows } from '../../../test/store.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { startWriteLoad } from '../../../test/write-load.ts'

const rounds = times(1, 3)

// The store grows all the time, and each round reads all of it several times.
test(`under load, every backup restores to a sound store (seed ${seed})`, async () => {
  const service = await startService()
  const owner = await registerOwner(service)
  const { token } = await createToken(service, owner.session)
  const teams = await service.call<{ id: string }[]>('GET', '/v1/workspace/main/team', { token: owner.session })
  const wish = { name: 'load', slug: 'load', teamId: teams.body[0]?.id }
  const made = await service.call<Project>('POST', '/v1/workspace/main/project', { token: owner.session, body: wish })
  const place = { workspace: 'main', project: made.body, prefix: 'LOAD_' }
  const load = startWriteLoad(service.url, token, place, createDice(seed))
  const { COFFER_DATABASE_URL: url, COFFER_DATA_DIR: dataDir = '' } = service.settings
  const settings = { COFFER_DATA_DIR: dataDir, ...(url === undefined ? {} : { COFFER_DATABASE_URL: url }) }
  const digests = new Set<string>()
  for (let round = 0; round < rounds; round++) {
    const before = load.acknowledged.length
    await until(() => load.acknowledged.length > before + 20 || undefined, 120_000, 'the load has gone on')
    const startedAt = load.acknowledged.length
    const file = join(service.dataDir, `${round}.backup`)
    const { code, out, err } = await runProgram(['backup', file], settings)
    expect(code, out + err).toBe(0)
    expect(load.acknowledged.length, 'writes went on meanwhile').toBeGreaterThan(startedAt)
    digests.add(/digest ([0-9a-f]{64})/.exec(out)?.[1] ?? '')

    const target = await createDatabase()
    const key = await readFile(join(service.dataDir, 'master.key'))
    await writeFile(join(target.dataDir, 'master.key'), key, { mode: 0o600 })
    const restored = await runHere(['restore', file], target.settings)
    expect(restored.code, restored.err).toBe(0)
    expect(await findBrokenRows(target.settings, made.body)).toEqual([])
    const { out: findings } = await runHere(['doctor'], target.settings)
    expect(findings).not.toContain('wrong')
    await target.drop()
  }
  expect(digests.size).toBe(rounds)
  expect(load.unexpected).toEqual([])
  await service.stop()
  await load.ended
}, 900_000)
