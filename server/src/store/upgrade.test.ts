/**
 * Stores of every version in CHANGELOG.md (`test/fixture/`), opened by today's code: it gives every answer that the
 * version gave which made the store.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { askAsNoted, expectSameAnswers } from '../../../test/fixture/check.ts'
import { type Description, placeFixture } from '../../../test/fixture/fixture.ts'
import { createDatabase, type Database, engine as kind, openService, type TestService } from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { isDeep } from '../../../test/tier.ts'
import { steps } from './migrate.ts'

const root = join(import.meta.dirname, '../../..')
const headings = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').matchAll(/^## (\S+)/gm)
const versions = [...headings].map(([, name = '']) => name.toLowerCase())

test('every version in CHANGELOG.md has a fixture', () => {
  expect(versions).toContain('0.1.0')
  for (const version of versions) {
    expect(existsSync(join(root, 'test/fixture', version)), `run "node test/fixture/make.ts ${version}"`).toBe(true)
  }
})

/** The fast tier opens the oldest. */
const opened = versions.slice(isDeep ? 0 : -1)

describe.each(opened)('a store of %s', (version) => {
  let database: Database
  let service: TestService
  let fixture: Description
  beforeAll(async () => {
    database = await createDatabase()
    fixture = await placeFixture(version, database)
    const clock = { offsetMs: fixture.at - Date.now() }
    service = await openService(database.settings, database.dataDir, {}, clock)
  })
  afterAll(async () => {
    await service.stop()
    await database.drop()
  })

  test('is upgraded', async () => {
    expect(await service.app.services.engine.migratedSteps()).toBe(steps.length)
    const told = service.logs.filter((line) => line.includes('upgrading the store'))
    const isOld = fixture.steps < steps.length
    expect(told).toHaveLength(isOld ? 1 : 0)
    const snapshot = join(database.dataDir, `coffer.db.before-step-${fixture.steps + 1}`)
    expect(existsSync(snapshot)).toBe(kind === 'sqlite' && isOld)
  })

  test('answers every credential as before', async () => {
    await expectSameAnswers(service, fixture)
  })

  test('accepts passwords, second factors, tokens, shares and invites, each as often as it must', async () => {
    for (const noted of fixture.once) {
      const { status, body, text } = await askAsNoted(service, fixture, noted)
      expect(status, `${noted.path}: ${text}`).toBe(noted.status)
      if (noted.body !== undefined) expect(body).toMatchObject(Object(noted.body))
    }
  })

  test('has the same audit trails, which verify, and doctor finds nothing wrong', async () => {
    const token = fixture.credentials.owner
    for (const workspace of ['main', 'second']) {
      const { body } = await service.call('GET', `/v1/workspace/${workspace}/audit/verify`, { token })
      expect(body).toMatchObject({ ok: true })
    }
    const raw = await openRaw(service)
    const recorded = `
      select hash from audit_entry where chain_id = ? and sequence = ?
      union all select hash from audit_batch where chain_id = ? and last_sequence = ?`
    for (const { chain, sequence, hash } of fixture.heads) {
      expect(await raw.query(recorded, [chain, sequence, chain, sequence])).toEqual([{ hash }])
    }
    await raw.close()
    expect(fixture.heads).toHaveLength(3)
    const { code, out } = await runHere(['doctor'], database.settings)
    expect(out).not.toContain('wrong')
    expect(code).toBe(0)
  })
})
